"""The real ft_launcher where it is installed, and a stand-in that takes seconds less."""

import importlib.util
import sys
from pathlib import Path

#: A folder for PYTHONPATH: a package that stands in for nvidia-resiliency-ext.
STAND_IN = Path(__file__).parent
#: Where scripts/setup-venv puts the real one, which is no part of .venv itself.
REAL = Path(sys.prefix, "ft")


def why_not_real() -> str:
    """Why the real one cannot be tested; empty: it can."""
    if not importlib.util.find_spec("torch"):
        return "there is no torch"
    if not (REAL / "nvidia_resiliency_ext").is_dir():
        return f"THE REAL ft_launcher IS NOT TESTED: scripts/setup-venv did not install it into {REAL}"
    return ""
