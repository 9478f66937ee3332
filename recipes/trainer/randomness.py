"""The states of all random number generators of a rank. For the nodes: needs torch."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch


def seed(number: int) -> None:
    """Start all generators anew."""
    torch.manual_seed(number)  # the devices' generators, too
    random.seed(number)
    numpy.random.seed(number % 2**32)


def state() -> dict[str, Any]:
    """As plain values and tensors, so that it can be read without executing anything."""
    generator: Any = numpy.random.get_state(legacy=True)
    kind, keys, *rest = generator
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(keys.astype("int64")), *rest),
    }


def restore(saved: dict[str, Any]) -> None:
    """Set all generators to what `state` returned."""
    torch.set_rng_state(saved["torch"])
    if saved["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["cuda"])
    random.setstate(saved["python"])
    kind, keys, *rest = saved["numpy"]
    numpy.random.set_state((kind, keys.numpy().astype("uint32"), *rest))
