"""The steps of a run, one after the other. For the nodes: needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import torch

from trainer import order, schedule
from trainer.checkpoints import Checkpoints, Progress
from trainer.config import AdamW, LrScheduler, StepScheduler
from trainer.group import Group
from trainer.metrics import MetricsFile, Pace
from trainer.parallel import ParallelModel
from trainer.requests import Requests
from trainer.samples import Samples
from trainer.state import TrainerState


@dataclass
class Steps:
    """What the steps need, and how far they are."""

    group: Group
    samples: Samples
    model: ParallelModel
    state: TrainerState
    progress: Progress
    optimizer: AdamW
    lr_scheduler: LrScheduler
    step_scheduler: StepScheduler
    losses: list[float] = field(default_factory=list)
    """Those that were told."""

    def settle(self) -> None:
        """Let DDP choose how it groups the gradients, which it does after its first backward pass.

        Sums of more than two ranks depend on the grouping in their last digits; so a resumed run must not have another
        one in its first step than a run that never stopped.
        """
        size = self.progress.global_batch_size // self.group.world_size
        tokens, labels = self._batch(range(min(size, self.step_scheduler.local_batch_size)))
        self.model.backward(tokens, labels, 1, last=True)
        self.state.optimizer.zero_grad()

    def run(self, checkpoints: Checkpoints, requests: Requests, metrics: MetricsFile | None) -> bool:
        """Go on to the last step; whether it was told to stop before."""
        plan, stop = self.step_scheduler, False
        pace = Pace(self.progress.step)
        while self.progress.step < plan.max_steps and not stop:
            step = self.progress.step + 1
            learning_rate = self.optimizer.lr * schedule.factor(step, self.lr_scheduler, plan.max_steps)
            loss, targets, tokens = self._gradients()
            norm = self.model.clip(self.optimizer.max_grad_norm)
            self.state.step(learning_rate)
            self.progress = replace(self.progress, step=step, samples=self.progress.samples + self._size)
            pace.add(tokens)

            if not self.losses or step % plan.log_interval == 0 or step == plan.max_steps:
                self.losses.append(self.group.sum(loss).item() / targets)
                speed, left = pace.measure(step, plan.max_steps)
                if metrics:
                    self._tell(metrics, speed, left, {"lr": learning_rate, "grad_norm": norm.item()})

            asked, stop = requests.look()
            if asked or step % plan.checkpoint_interval == 0 or step == plan.max_steps:
                checkpoints.save(self.progress, self.state.tensors())
        return stop

    @property
    def _size(self) -> int:
        return self.progress.global_batch_size

    def _gradients(self) -> tuple[Any, int, int]:
        """(sum of this rank's losses, labels and tokens of the batch of all ranks)."""
        first = self.progress.samples
        data, seed = self.samples, self.progress.seed
        whole = [order.sample(number, len(data), seed) for number in range(first, first + self._size)]
        share = self._size // self.group.world_size
        mine = whole[self.group.rank * share : (self.group.rank + 1) * share]
        targets = data.targets(whole)
        total = torch.zeros((), device=self.group.device)
        local = self.step_scheduler.local_batch_size
        for start in range(0, share, local):
            tokens, labels = self._batch(mine[start : start + local])
            total += self.model.backward(tokens, labels, targets, last=start + local >= share)
        return total, targets, data.tokens(whole)

    def _batch(self, indices: Sequence[int]) -> tuple[Any, Any]:
        tokens, labels = self.samples.batch([index % len(self.samples) for index in indices])
        return tokens.to(self.group.device), labels.to(self.group.device)

    def _tell(self, metrics: MetricsFile, speed: float, left: float, more: dict[str, float]) -> None:
        step, steps, loss = self.progress.step, self.step_scheduler.max_steps, self.losses[-1]
        eta = timedelta(seconds=round(left))
        print(f"step {step}/{steps} loss {loss:.3f} tokens/s {speed:.0f} ETA {eta}", flush=True)
        metrics.write({"step": step, "loss": loss, "tokens_per_s": round(speed, 1), "eta_s": round(left, 1), **more})
