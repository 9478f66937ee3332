"""A training run on one rank, from its first line to its last. For the nodes: needs torch."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from transformers.utils.logging import disable_progress_bar

from trainer import randomness
from trainer.checkpoints import Checkpoints, Progress, Restored
from trainer.config import AdamW, Checkpoint, Export, LrScheduler, Metrics, Parallel, RestoreFrom, StepScheduler
from trainer.export import export
from trainer.group import Group
from trainer.metrics import MetricsFile
from trainer.parallel import ParallelModel
from trainer.ranks import Mistake, Rank
from trainer.requests import Requests
from trainer.samples import Samples
from trainer.state import TrainerState
from trainer.steps import Steps


@dataclass
class Run:
    """One call of `train`; the fields are its arguments."""

    place: Rank
    model: Any
    dataset: Any
    optimizer: AdamW
    lr_scheduler: LrScheduler
    step_scheduler: StepScheduler
    parallel: Parallel
    checkpoint: Checkpoint
    restore_from: RestoreFrom
    metrics: Metrics
    export: Export
    seed: int

    def train(self) -> int:
        """Train; the exit code."""
        group = Group(self.place, self.parallel.timeout_minutes, always=self.parallel.strategy == "fsdp2")
        requests = Requests(group)
        self._introduce(group)
        samples = self._load(group)
        restored = Restored(self.restore_from.newest, group) if self.restore_from.newest else None
        model = self._build(group, samples, restored)
        steps = self._steps(group, samples, model, restored)
        checkpoints = Checkpoints(self.checkpoint, group)
        first = group.rank == 0
        metrics = group.only(first, lambda: MetricsFile(self.metrics.file, steps.progress.step))
        with metrics or contextlib.nullcontext():
            requests.hear_end()
            stopped = steps.run(checkpoints, requests, metrics)
        checkpoints.close()
        if first:
            change = f", loss {steps.losses[0]:.3f} -> {steps.losses[-1]:.3f}" if steps.losses else ""
            print(f"{'stopped by SIGTERM' if stopped else 'done'} after step {steps.progress.step}{change}", flush=True)
        if self.export.enabled and not stopped:
            export(
                model, samples.tokenizer, self.export.folder, self.export.dtype or self.model.original_dtype(), group
            )
        if group.exists:
            dist.destroy_process_group()
        return 128 + signal.SIGTERM if stopped else 0

    def _introduce(self, group: Group) -> None:
        master = f"MASTER_ADDR={os.environ.get('MASTER_ADDR')} MASTER_PORT={os.environ.get('MASTER_PORT')}"
        where = f"{socket.gethostname()} {group.device}"
        print(f"rank {group.rank} WORLD_SIZE={group.world_size} {master} {where}", flush=True)

    def _load(self, group: Group) -> Samples:
        samples: Samples = self.dataset.load(group)
        if len(set(group.everyones(samples.fingerprint))) > 1:
            here = f"{socket.gethostname()} has {samples.fingerprint}"
            raise Mistake(f"the data of dataset.path are not the same on all nodes: {here}.")
        return samples

    def _build(self, group: Group, samples: Samples, restored: Restored | None) -> Any:
        """The model, whole, on this rank's device."""
        disable_progress_bar()
        randomness.seed(self.seed)  # all ranks begin with the same weights
        with group.device:
            model = self.model.build(self.dataset.seq_len)
        model.to(group.device)
        for what, needs, field, has in (
            ("dataset.seq_len", self.dataset.seq_len, "max_position_embeddings", "positions"),
            ("the tokenizer's vocabulary", samples.vocab_size, "vocab_size", "tokens"),
        ):
            known = getattr(model.config, field, None)
            if known is not None and needs > known:
                raise Mistake(f"{what} is {needs}, but the model knows {known} {has} ({field}).")
        if restored:
            restored.check(model)
        return model

    def _steps(self, group: Group, samples: Samples, model: Any, restored: Restored | None) -> Steps:
        """Everything as it was after the last step of the checkpoint, or as it is before the first."""
        progress = self._progress(group, samples, restored)
        parallel = ParallelModel(model, self.parallel, group)
        state = TrainerState(model, self.optimizer)
        scheduling = self.optimizer, self.lr_scheduler, self.step_scheduler
        steps = Steps(group, samples, parallel, state, progress, *scheduling)
        steps.settle()
        if restored:
            state.load(restored)
        random_state = restored.random_state() if restored else None
        if random_state is None:
            randomness.seed(self.seed + 1 + group.rank + 7919 * progress.step)
        else:
            randomness.restore(random_state)
        return steps

    def _progress(self, group: Group, samples: Samples, restored: Restored | None) -> Progress:
        ranks, batch = group.world_size, self.step_scheduler.global_batch_size
        if batch is None:
            local = self.step_scheduler.local_batch_size
            batch = restored.progress.global_batch_size if restored else ranks * local
        if batch % ranks:
            remedy = f"Set it to a multiple, such as {-(-batch // ranks) * ranks}"
            raise Mistake(f"step_scheduler.global_batch_size {batch} cannot be shared among {ranks} ranks. {remedy}.")
        step, taken = (restored.progress.step, restored.progress.samples) if restored else (0, 0)
        if restored and group.rank == 0:
            print(f"restored step {step} from {restored.folder}", flush=True)
            if (restored.progress.data, restored.progress.seed) != (samples.fingerprint, self.seed):
                print(
                    "note: data or seed are not those of the checkpoint; so the order of the data is another",
                    flush=True,
                )
        return Progress(step, taken, batch, ranks, self.seed, samples.fingerprint)
