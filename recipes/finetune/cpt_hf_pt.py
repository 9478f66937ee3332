# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6", "transformers", "numpy"]
#
# [tool.nemo-launch]
# launcher = "torchrun"
# ///
"""Continued pre-training of a Hugging Face checkpoint on text of one's own.

dataset.path is a .jsonl file, or a folder of them, with lines {"text": …}; the texts are read one after the other.

    run.py -s finetune/cpt_hf_pt.py --ntasks-per-node 8 \\
      model.path=/models/llama dataset.tokenizer=/models/llama dataset.path=/data/text.jsonl

The trained model is saved as a Hugging Face checkpoint in `model` in the task's folder (or export.dir).
"""

from trainer.config import AdamW, Checkpoint, Export, LrScheduler, Metrics, Parallel, RestoreFrom, StepScheduler
from trainer.datasets import TextLines
from trainer.loop import train
from trainer.models import Pretrained

import nemo_launch as nl


def recipe() -> nl.Partial[None]:
    """What `run.py -s` starts; every field of it can be set as `key=value`, and three paths have to be."""
    return nl.Partial(
        train,
        model=nl.Config(Pretrained),
        dataset=nl.Config(TextLines, seq_len=2048),
        optimizer=nl.Config(AdamW, lr=1e-5, weight_decay=0.0),
        lr_scheduler=nl.Config(LrScheduler, style="cosine", warmup_steps=50),
        step_scheduler=nl.Config(
            StepScheduler, max_steps=1000, checkpoint_interval=200, log_interval=10, local_batch_size=4
        ),
        parallel=nl.Config(Parallel, strategy="fsdp2", dtype="bfloat16", activation_checkpointing=True),
        checkpoint=nl.Config(Checkpoint, keep_last_k=2),
        restore_from=nl.Config(RestoreFrom),
        metrics=nl.Config(Metrics),
        export=nl.Config(Export),
        seed=1234,
    )
