"""Running text as sequences of equal length. For the nodes: needs torch."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from trainer.group import Group
from trainer.ranks import Mistake, paragraph
from trainer.tokens import Cache, Tokens, load_tokenizer


class Windows:
    """The n-th sample is the n-th stretch of seq_len tokens, each labelled with the one after it."""

    def __init__(self, tokens: Any, seq_len: int, vocab_size: int, tokenizer: Any) -> None:
        self.fingerprint = f"{len(tokens)} tokens {_checksum(tokens):08x} seq_len {seq_len}"
        self.vocab_size, self.tokenizer = vocab_size, tokenizer
        self._tokens, self._seq_len = tokens, seq_len

    def __len__(self) -> int:
        return (len(self._tokens) - 1) // self._seq_len

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any]:
        starts = [index * self._seq_len for index in indices]
        rows = torch.stack([self._tokens[start : start + self._seq_len + 1].long() for start in starts])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def targets(self, indices: Sequence[int]) -> int:
        return len(indices) * self._seq_len

    tokens = targets


def windows(
    documents: Iterator[bytes],
    source: Path,
    seq_len: int,
    tokenizer: str | None,
    cache: Cache,
    group: Group,
) -> Windows:
    """The documents as samples; bytes are kept in memory, the tokens of a tokenizer in a file for every start."""
    if tokenizer is None:
        text = bytearray().join(documents)
        _enough(len(text), seq_len, source)
        return Windows(torch.frombuffer(text, dtype=torch.uint8), seq_len, 256, None)
    loaded = load_tokenizer(tokenizer)
    store = Tokens(loaded, tokenizer, cache)
    group.first_then_others(lambda: store.write(documents))
    tokens = store.open()
    _enough(len(tokens), seq_len, source)
    return Windows(tokens, seq_len, len(loaded), loaded)


def documents_of_files(paths: Iterable[Path], max_bytes: int | None) -> Iterator[bytes]:
    """The content of each, up to so many bytes in all."""
    left = max_bytes
    for path in paths:
        if left is not None and left <= 0:
            return
        with contextlib.suppress(OSError):  # a dangling link spoils no training run
            text = path.read_bytes()[:left]
            left = left if left is None else left - len(text)
            yield text


def documents_of_lines(paths: Iterable[Path], key: str) -> Iterator[bytes]:
    """The text of each line; what is wrong with lines is told once, all of it."""
    wrong: list[str] = []
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    text = json.loads(line)[key]
                    yield text.encode()
                except (ValueError, KeyError, TypeError, AttributeError):
                    wrong.append(f"{path}:{number}")
    if wrong:
        some = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise Mistake(paragraph([f'dataset.path: not JSON lines of the form {{"{key}": "…"}}: {some}']))


def _enough(count: int, seq_len: int, source: Path) -> None:
    if count <= seq_len:
        raise Mistake(f"dataset.path {source} holds {count} tokens, too little for one sequence of {seq_len}.")


def _checksum(tokens: Any) -> int:
    """Of up to 16 MiB at either end: enough to notice other text without reading a corpus twice."""
    ends = [tokens[: 2**23], tokens[-(2**23) :]] if len(tokens) > 2**24 else [tokens]
    value = 0
    for end in ends:
        value = zlib.crc32(end.contiguous().view(torch.uint8).numpy(), value)
    return value
