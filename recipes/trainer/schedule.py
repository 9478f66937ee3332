"""The learning rate of a step."""

from __future__ import annotations

import math

from trainer.config import LrScheduler


def factor(step: int, config: LrScheduler, max_steps: int) -> float:
    """What optimizer.lr is multiplied with in this step (the first is 1)."""
    if step <= config.warmup_steps:
        return step / config.warmup_steps
    end = max(config.decay_steps or max_steps, config.warmup_steps + 1)
    done = min(1.0, (step - config.warmup_steps) / (end - config.warmup_steps))
    if config.style == "linear":
        left = 1 - done
    elif config.style == "cosine":
        left = (1 + math.cos(math.pi * done)) / 2
    else:
        return 1.0
    return config.min_lr_ratio + (1 - config.min_lr_ratio) * left
