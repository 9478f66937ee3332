"""The logs of single ranks, as the runner on the nodes calls them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from nemo_launch.executors.base import LogSource


def sources(folder: str, names: Iterable[str], attempt: int = 0) -> list[LogSource]:
    """The logs among the files of an attempt's rank folder, by rank."""
    ranks = sorted(int(found[1]) for name in names if (found := re.fullmatch(r"rank-([0-9]+)\.log", name)))
    return [LogSource(os.path.join(folder, f"rank-{rank}.log"), rank=rank, attempt=attempt) for rank in ranks]
