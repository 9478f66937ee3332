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

from trainer.datasets import TextLines
from trainer.tuning import tuning

import nemo_launch as nl


def recipe() -> nl.Partial[None]:
    """What `run.py -s` starts; every field of it can be set as `key=value`, and three paths have to be."""
    dataset = nl.Config(TextLines, seq_len=2048)
    return tuning(dataset, max_steps=1000, checkpoint_interval=200, warmup_steps=50)
