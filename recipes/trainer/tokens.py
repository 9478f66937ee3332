"""Text as tokens in a file, written once and then read by every rank and every later start. For the nodes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import torch

from trainer.ranks import Mistake

#: Documents that are given to the tokenizer at once; it shares them among the node's cores.
CHUNK = 256


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a folder or of the Hugging Face hub."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise Mistake(f"dataset.tokenizer {name} cannot be loaded: {first}.") from error


@dataclass(frozen=True)
class Cache:
    """Where tokens are kept, and what they depend on besides the tokenizer."""

    folder: Path
    files: Sequence[Path]
    """What they are made from; other sizes or times of change mean other tokens."""
    choice: str
    """What of the files is read."""


class Tokens:
    """A file of int32, named by what it was made from."""

    def __init__(self, tokenizer: Any, name: str, cache: Cache) -> None:
        made_from = [*cache.files, *sorted(Path(name).glob("*.json"))]
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in made_from if path.exists()]
        digest = hashlib.sha256(repr((name, len(tokenizer), cache.choice, stats)).encode()).hexdigest()[:16]
        self._file, self._tokenizer = cache.folder / f"{digest}.int32", tokenizer

    def write(self, documents: Iterable[bytes]) -> None:
        """Make the file if it is not there, whole or not at all."""
        if self._file.is_file():
            return
        temporary = self._file.with_suffix(f".{os.uname().nodename}.{os.getpid()}.tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as out:
                for ids in self._encoded(documents):
                    numpy.asarray(ids, dtype=numpy.int32).tofile(out)
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(self._file)
        except OSError as error:
            problem = f"cannot write {error.filename or temporary}: {error.strerror}"
            raise Mistake(f"{problem}. Name another folder as dataset.cache_dir.") from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def open(self) -> Any:
        """The tokens, read from the file as they are needed."""
        if not self._file.stat().st_size:
            return torch.empty(0, dtype=torch.int32)
        return torch.from_numpy(numpy.memmap(self._file, dtype=numpy.int32, mode="c"))

    def _encoded(self, documents: Iterable[bytes]) -> Iterator[list[int]]:
        end = self._tokenizer.eos_token_id
        rest = iter(documents)
        while chunk := [text.decode(errors="replace") for text in islice(rest, CHUNK)]:
            for ids in self._tokenizer(chunk, add_special_tokens=False)["input_ids"]:
                yield ids if end is None else [*ids, end]
