# /// script
# requires-python = ">=3.10"
# dependencies = ["torch>=2.6", "transformers", "numpy"]
#
# [tool.nemo-launch]
# launcher = "torchrun"
# ///
"""Supervised fine-tuning of a Hugging Face checkpoint: the model learns the completions, not the prompts.

dataset.path is a .jsonl file, or a folder of them, with lines {"prompt": …, "completion": …} or {"messages": […]}.

    run.py -s finetune/sft_hf_pt.py --ntasks-per-node 8 \\
      model.path=/models/llama dataset.tokenizer=/models/llama dataset.path=/data/train.jsonl

The tuned model is saved as a Hugging Face checkpoint in `model` in the task's folder (or export.dir).
"""

from trainer.datasets import Completions
from trainer.tuning import tuning

import nemo_launch as nl


def recipe() -> nl.Partial[None]:
    """What `run.py -s` starts; every field of it can be set as `key=value`, and three paths have to be."""
    dataset = nl.Config(Completions, seq_len=2048)
    return tuning(dataset, max_steps=500, checkpoint_interval=100, warmup_steps=20)
