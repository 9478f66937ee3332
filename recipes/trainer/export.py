"""The trained model as a Hugging Face checkpoint. For the nodes: needs torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from trainer.group import Group


def export(model: Any, tokenizer: Any, folder: Path, dtype: str, group: Group) -> None:
    """Gather the weights on the first rank, and save them there with the tokenizer, whole or not at all."""
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if group.rank != 0:
        return
    kind = getattr(torch, dtype)
    weights = {name: tensor.to(kind) if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    temporary, replaced = (folder.with_name(f".tmp-{what}-{folder.name}") for what in ("new", "old"))
    for leftover in (temporary, replaced):
        shutil.rmtree(leftover, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    model.config.use_cache = True
    model.save_pretrained(temporary, state_dict=weights)
    _name_dtype(temporary / "config.json", dtype)
    if tokenizer is not None:
        tokenizer.save_pretrained(temporary)
    if folder.exists():
        folder.rename(replaced)
    temporary.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    print(f"model {folder}", flush=True)


def _name_dtype(file: Path, dtype: str) -> None:
    """Say what the weights are; transformers wrote what the model has here."""
    config = json.loads(file.read_text(encoding="utf-8"))
    config.update({name: dtype for name in ("dtype", "torch_dtype") if name in config})
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
