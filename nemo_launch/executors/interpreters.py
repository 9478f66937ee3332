"""What an interpreter on this machine has, found without importing it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

_PROBE_SECONDS = 30.0
#: What to do where an interpreter has no torch.
REMEDY = "Install torch there, name another interpreter with python, or use launcher=none."


def without_torch(program: str) -> str:
    """Why this interpreter has no torch; empty: it has. Nothing is imported: torch takes seconds."""
    if os.path.abspath(program) == os.path.abspath(sys.executable):
        return "" if importlib.util.find_spec("torch") else f"{program} has no torch"
    code = "import importlib.util, sys; sys.exit(9 if importlib.util.find_spec('torch') is None else 0)"
    try:
        done = subprocess.run(
            [program, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be asked for torch ({error})"
    if done.returncode == 9:
        return f"{program} has no torch"
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"{program} cannot be asked for torch ({said})" if done.returncode else ""
