"""The ranks as a group: their devices, and how they agree. For the nodes: needs torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from trainer.ranks import Mistake, Rank

T = TypeVar("T")
#: How long the others wait while the first rank turns text into tokens.
PREPARING = timedelta(hours=12)


class Group:
    """All ranks. Numbers of the model travel on the device's backend, agreements on gloo, beside it."""

    def __init__(self, place: Rank, timeout_minutes: float, always: bool) -> None:
        self.rank, self.local_rank, self.world_size = place.rank, place.local_rank, place.world_size
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", self.local_rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        elif "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)  # ranks share the node's cores; more threads than cores is slower by far
        self.control: Any = None
        self.exists = always or self.world_size > 1
        if not self.exists:
            return
        # Without a world there is no MASTER_ADDR to meet at, but fully_shard needs a group all the same.
        alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1} if self.world_size == 1 else {}
        timeout = timedelta(minutes=timeout_minutes)
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=timeout, **alone)
        self.control = dist.new_group(backend="gloo", timeout=PREPARING)

    def any(self, *flags: bool) -> list[bool]:
        """Each flag as it is on any rank."""
        if self.world_size == 1:
            return list(flags)
        tensor = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.control)
        return [bool(flag) for flag in tensor.tolist()]

    def from_first(self, value: Any) -> Any:
        """The first rank's value."""
        if self.world_size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def everyones(self, value: Any) -> list[Any]:
        """The values of all ranks."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def sum(self, tensor: Any) -> Any:
        """The sum over all ranks, on the device."""
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor

    def first_then_others(self, prepare: Callable[[], None]) -> None:
        """Let the first rank prepare something on disk, then one rank of each node that still misses it."""
        self.only(self.rank == 0, prepare)
        self.only(self.rank != 0 and self.local_rank == 0, prepare)

    def only(self, mine: bool, act: Callable[[], T]) -> T | None:
        """Let some ranks do something; a mistake that one of them finds is raised on all, so that nobody waits."""
        mistake, result = None, None
        try:
            if mine:
                result = act()
        except Mistake as problem:
            mistake = str(problem)
        for other in self.everyones(mistake):
            if other:
                raise Mistake(other)
        return result
