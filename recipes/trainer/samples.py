"""What every kind of data is to the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

#: A label that has no part in the loss.
IGNORED = -100


class Samples(Protocol):
    """Numbered sequences: `len(samples)` of them."""

    fingerprint: str
    """Other data, other text."""
    vocab_size: int
    """More than the greatest token."""
    tokenizer: Any
    """What is saved with the model; None where tokens are bytes."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any]:
        """(tokens, labels): two tensors of int64, a row per sample; the label is the token that comes next."""

    def targets(self, indices: Sequence[int]) -> int:
        """How many labels of these samples have a part in the loss."""

    def tokens(self, indices: Sequence[int]) -> int:
        """How many tokens these samples have, padding not counted."""
