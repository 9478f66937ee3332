# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers", "numpy"]
#
# [tool.nemo-launch]
# launcher = "torchrun"
# ///
"""Pretrains a tiny Llama (0.4 M parameters) on real text, byte by byte, with PyTorch DDP.

The text is every source file under dataset.path; by default the sources of Python's own standard library, which every
machine has. With the defaults it takes seconds on two CPU cores.

    run.py -s pretrain/llama_tiny_pt.py --ntasks-per-node 2 model.num_hidden_layers=3 step_scheduler.max_steps=40
"""

from trainer.config import AdamW, Checkpoint, Export, LrScheduler, Metrics, Parallel, RestoreFrom, StepScheduler
from trainer.datasets import TextFiles
from trainer.loop import train
from trainer.models import Llama

import nemo_launch as nl


def recipe() -> nl.Partial[None]:
    """What `run.py -s` starts; every field of it can be set as `key=value`."""
    return nl.Partial(
        train,
        model=nl.Config(Llama),
        dataset=nl.Config(TextFiles, max_bytes=16 * 2**20),  # plenty for a tiny model, and read in well under a second
        optimizer=nl.Config(AdamW, lr=3e-3),
        lr_scheduler=nl.Config(LrScheduler),
        step_scheduler=nl.Config(
            StepScheduler, max_steps=60, checkpoint_interval=20, log_interval=5, local_batch_size=8
        ),
        parallel=nl.Config(Parallel),
        checkpoint=nl.Config(Checkpoint, keep_last_k=2),
        restore_from=nl.Config(RestoreFrom),
        metrics=nl.Config(Metrics),
        export=nl.Config(Export),
        seed=1234,
    )
