"""Training that begins with a Hugging Face checkpoint: what its recipes share. Where one launches: no torch."""

from __future__ import annotations

from typing import Any

import nemo_launch as nl
from trainer.config import AdamW, Checkpoint, Export, LrScheduler, Metrics, Parallel, RestoreFrom, StepScheduler
from trainer.loop import train
from trainer.models import Pretrained


def tuning(dataset: Any, *, max_steps: int, checkpoint_interval: int, warmup_steps: int) -> nl.Partial[None]:
    """What to train a pretrained model with, sharded and in bfloat16; lengths are in optimizer steps."""
    return nl.Partial(
        train,
        model=nl.Config(Pretrained),
        dataset=dataset,
        optimizer=nl.Config(AdamW, lr=1e-5, weight_decay=0.0),
        lr_scheduler=nl.Config(LrScheduler, style="cosine", warmup_steps=warmup_steps),
        step_scheduler=nl.Config(
            StepScheduler,
            max_steps=max_steps,
            checkpoint_interval=checkpoint_interval,
            log_interval=10,
            local_batch_size=4,
        ),
        parallel=nl.Config(Parallel, strategy="fsdp2", dtype="bfloat16", activation_checkpointing=True),
        checkpoint=nl.Config(Checkpoint, keep_last_k=2),
        restore_from=nl.Config(RestoreFrom),
        metrics=nl.Config(Metrics),
        export=nl.Config(Export),
        seed=1234,
    )
