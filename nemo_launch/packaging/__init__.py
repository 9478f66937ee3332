"""The snapshot of the code that travels with a job: which files, their name by content, and the copy."""

from __future__ import annotations

from nemo_launch.packaging.listing import TooMuch
from nemo_launch.packaging.naming import alone, collect, inline, shared, texts
from nemo_launch.packaging.provisional import Provisional
from nemo_launch.packaging.snapshot import store, stored

__all__ = ["Provisional", "TooMuch", "alone", "collect", "inline", "shared", "store", "stored", "texts"]
