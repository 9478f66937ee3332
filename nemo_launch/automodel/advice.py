"""What is worth a word before a long run: checkpoints that a restart needs, and time to write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_launch.config.executor import ExecutorConfig

#: Seconds that writing a large checkpoint takes, as the rule of thumb goes (5 to 10 minutes).
ENOUGH = 300
INTERVALS = ("step_scheduler.checkpoint_interval", "step_scheduler.ckpt_every_steps")
RESTORES = ("restore_from.path", "restore_from", "checkpoint.restore_from")


def of(recipe: Mapping[str, Any], config: ExecutorConfig) -> Iterator[str]:
    """Lines for people; ``recipe`` is the recipe's part of the file with its overrides."""
    spot = getattr(config, "use_spot", False)
    restarts = bool(getattr(config, "resume_on", None))
    if (spot or restarts) and not any(value(recipe, key) for key in INTERVALS):
        what = "a preempted spot instance loses all its work" if spot else "a restart (resume_on) begins anew"
        yield f"the recipe saves no checkpoint on its way, so that {what}: set {' or '.join(INTERVALS)}"
    if spot and not any(value(recipe, key) for key in RESTORES):
        yield "the recipe restores from nowhere after a preemption: set restore_from.path or checkpoint.restore_from"
    yield from _times(config)


def _times(config: ExecutorConfig) -> Iterator[str]:
    margin = config.margin_seconds()
    if config.time is None or margin is None:
        return
    work = config.time.seconds - margin
    if margin < ENOUGH or work < ENOUGH:
        yield (
            f"the checkpoint request comes {_minutes(margin)} before the limit of {config.time}, after "
            f"{_minutes(work)} of work; a large checkpoint takes 5 to 10 minutes: raise time, or set margin"
        )


def _minutes(seconds: int) -> str:
    return f"{seconds / 60:.2g} minutes" if seconds < 600 else f"{seconds // 60} minutes"


def value(recipe: Any, key: str) -> Any:
    """What stands at ``a.b``; None: nothing."""
    for word in key.split("."):
        if not isinstance(recipe, Mapping):
            return None
        recipe = recipe.get(word)
    return recipe
