# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6", "transformers", "numpy"]
#
# [tool.nemo-launch]
# launcher = "torchrun"
# ///
"""Pretrains a Llama with 2,035,386,368 parameters, made as Llama 3.1 is, with PyTorch's FSDP2 in bfloat16.

Of Llama 3.1 it has the vocabulary, the rotary embedding and its scaling, the heads of 128 with 8 of them for keys and
values, and separate embeddings for input and output; of the size are its 24 layers of 2048.

    run.py -e slurm --slurm-type hcc-a3m -n 2 -s pretrain/llama3p1_2b_pt.py \\
      dataset.path=/data/text dataset.tokenizer=/data/llama-3.1-tokenizer

Without a tokenizer the text is read as bytes, which is enough to try the cluster; without a path it is the sources of
Python's standard library.
"""

from trainer.config import AdamW, Checkpoint, Export, LrScheduler, Metrics, Parallel, RestoreFrom, StepScheduler
from trainer.datasets import TextFiles
from trainer.loop import train
from trainer.models import Llama, RopeScaling

import nemo_launch as nl


def recipe() -> nl.Partial[None]:
    """What `run.py -s` starts; every field of it can be set as `key=value`."""
    return nl.Partial(
        train,
        model=nl.Config(
            Llama,
            vocab_size=128_256,
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=24,
            num_attention_heads=16,
            num_key_value_heads=8,
            max_position_embeddings=131_072,
            rope_theta=500_000.0,
            rope_scaling=nl.Config(RopeScaling),
            rms_norm_eps=1e-5,
        ),
        dataset=nl.Config(TextFiles, seq_len=4096),
        optimizer=nl.Config(AdamW, lr=3e-4, weight_decay=0.1),
        lr_scheduler=nl.Config(LrScheduler, style="cosine", warmup_steps=200),
        step_scheduler=nl.Config(
            StepScheduler, max_steps=10_000, checkpoint_interval=500, log_interval=10, local_batch_size=1
        ),
        parallel=nl.Config(Parallel, strategy="fsdp2", dtype="bfloat16", activation_checkpointing=True),
        checkpoint=nl.Config(Checkpoint, keep_last_k=2),
        restore_from=nl.Config(RestoreFrom),
        metrics=nl.Config(Metrics),
        export=nl.Config(Export, dtype="bfloat16"),
        seed=1234,
    )
