"""Kills a launcher at a chosen instant, by watching what it leaves on disk: the product has no hooks for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Point = Callable[[], bool]
"""True from a certain instant on."""


def exists(folder: Path, pattern: str) -> Point:
    """The instant at which a file that matches appears: ``exists(launcher.runs, "experiments/*/*/*/intent.json")``."""
    return lambda: next(folder.glob(pattern), None) is not None


def after(seconds: float) -> Point:
    """So many seconds after the call of this function."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() >= deadline


def kill_at(process: subprocess.Popen[Any], point: Point, *, group: bool = False, timeout: float = 90) -> bool:
    """SIGKILLs the process as soon as ``point`` is reached; False when the process ended before.

    Only the process itself, so that an sbatch it has started goes on, as when a launcher is killed by
    mistake; with ``group`` its whole process group, as when a session ends or memory runs out.
    TimeoutError, and the process killed, when neither happens within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        ended = process.poll() is not None
        if ended or point():
            break
        if time.monotonic() > deadline:
            _kill(process, group)
            raise TimeoutError(f"the point was not reached within {timeout:g} s")
        time.sleep(0.0005)
    if not ended:
        _kill(process, group)
    return process.returncode == -signal.SIGKILL


def _kill(process: subprocess.Popen[Any], group: bool) -> None:
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait(10)
