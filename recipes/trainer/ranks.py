"""Which rank this process is, and how it tells a mistake of the user and ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn


class Mistake(Exception):
    """Something that the user has to put right: one paragraph on every node, exit code 2."""


@dataclass(frozen=True)
class Rank:
    """A process' place among all."""

    rank: int
    local_rank: int
    world_size: int

    @classmethod
    def of_environment(cls) -> Rank:
        """As torchrun sets it; one process by itself where nothing is set."""
        values = {name: os.environ.get(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
        world_size = int(values["WORLD_SIZE"] or 1)
        if world_size > 1 and not values["RANK"]:
            remedy = "Start one process per rank, with torchrun, or with srun and RANK and LOCAL_RANK set in each"
            raise Mistake(f"WORLD_SIZE is {world_size} but RANK is not set. {remedy}")
        return cls(int(values["RANK"] or 0), int(values["LOCAL_RANK"] or 0), world_size)


def paragraph(problems: Iterable[str]) -> str:
    """All problems as one paragraph."""
    return ". ".join(problem.rstrip(".") for problem in problems) + "."


def fail(message: str) -> NoReturn:
    """End for a mistake of the user: exit code 2, and one paragraph per node, from its first process.

    The other processes of the node wait, because whoever starts them ends all as soon as one has ended; they speak
    for themselves if nothing ends them, for then the first one did not see the mistake. The first one stays a little:
    others may still be reading what it sent, and would tell of a lost connection instead.
    """
    if int(os.environ.get("LOCAL_RANK") or 0) != 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(10)
    print(f"error: {message}", file=sys.stderr, flush=True)
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        time.sleep(2)
    leave(2)


def leave(code: int) -> NoReturn:
    """End the process at once, without taking down torch's objects.

    Everything is on disk by now. When DDP's reducer is taken down after gloo's group, as Python would do next, it now
    and then waits for ever for gloo's thread, which waits for the interpreter's lock (seen with torch 2.13).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
