"""The model over the ranks: DistributedDataParallel or fully_shard. For the nodes: needs torch."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh

from trainer.config import Parallel
from trainer.group import Group


class ParallelModel:
    """What the loop needs of a model, whatever the strategy."""

    def __init__(self, model: Any, config: Parallel, group: Group) -> None:
        self._group = group
        self._sharded = config.strategy == "fsdp2"
        self._autocast = torch.bfloat16 if config.dtype == "bfloat16" and not self._sharded else None
        if config.activation_checkpointing:
            _checkpoint_activations(model)
        model.train()
        self.module = model
        """The model itself, as it is saved."""
        self._call = model
        if self._sharded:
            _shard(model, config, group)
        elif group.world_size > 1:
            self._call = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def backward(self, tokens: Any, labels: Any, targets: int, last: bool) -> Any:
        """Add one micro-batch's gradients; the sum of its losses. Ranks exchange gradients after the `last` one.

        Both strategies take the mean over the ranks, whatever each has of the batch. What is wanted is the sum over
        all labels of the batch, divided by their number.
        """
        if self._sharded:
            self.module.set_requires_gradient_sync(last)
        waits = contextlib.nullcontext() if last or self._call is self.module else self._call.no_sync()
        with waits:
            with torch.autocast(self._group.device.type, self._autocast, enabled=self._autocast is not None):
                logits = self._call(input_ids=tokens, use_cache=False).logits
            total = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")
            (total * (self._group.world_size / targets)).backward()
        return total.detach()

    def clip(self, max_norm: float) -> Any:
        """Scale the gradients down to a norm; the norm that they had."""
        norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), max_norm)
        return norm.full_tensor() if self._sharded else norm


def _checkpoint_activations(model: Any) -> None:
    how = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):  # its name from transformers 5 on
        model.activation_checkpointing_enable(how)
    else:
        model.gradient_checkpointing_enable(how)


def _shard(model: Any, config: Parallel, group: Group) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(group.device.type, (group.world_size,))
    dtype = torch.bfloat16 if config.dtype == "bfloat16" else None
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32 if dtype else None)
    for layer in _layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def _layers(model: Any) -> list[Any]:
    """The modules that are gathered one at a time: those that transformers would never split over devices."""
    names = set(getattr(model, "_no_split_modules", None) or ())
    return [module for module in model.modules() if type(module).__name__ in names]
