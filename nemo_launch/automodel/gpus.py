"""How many GPUs this machine offers, told without torch."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping

_FOLDER = "/proc/driver/nvidia/gpus"
#: Seconds for a driver that hangs.
_PATIENCE = 30


def count(environ: Mapping[str, str], folder: str = _FOLDER) -> int:
    """The GPUs that a process of ours would see.

    ``CUDA_VISIBLE_DEVICES`` first, as CUDA reads it (what follows the first invalid entry is not seen), then
    ``nvidia-smi -L``, then the driver's folder.
    """
    there = _there(environ, folder)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return there
    found = 0
    for entry in visible.split(","):
        number = re.fullmatch(r"\s*([0-9]+)\s*", entry)
        if not number and not re.match(r"\s*(GPU|MIG)-", entry):
            break
        if number and int(number[1]) >= there > 0:
            break
        found += 1
    return found


def _there(environ: Mapping[str, str], folder: str) -> int:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_PATIENCE, env=dict(environ), check=False
        )
        if done.returncode == 0:
            return len(re.findall(r"^GPU [0-9]+:", done.stdout, re.MULTILINE))
    except (OSError, subprocess.TimeoutExpired):
        pass
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0
