"""The data that recipes name: text files, text in JSON lines, and completions in JSON lines.

What is read depends on the files alone, never on the machine: every rank gets the same samples with the same numbers.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import not_positive, task_dir

if TYPE_CHECKING:
    from trainer.group import Group
    from trainer.samples import Samples

TEXT_SUFFIXES = (".py", ".txt", ".md", ".rst", ".jsonl")
JSONL_SUFFIXES = (".jsonl", ".json")


def files(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """The file, or all with these suffixes below the folder, in an order that is the same on every node."""
    if path.is_file():
        yield path
        return
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - {"site-packages", "__pycache__"})  # in place: what os.walk goes on with
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(suffixes))


def path_problems(path: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Whether there is something to read."""
    if not Path(path).exists():
        yield f"dataset.path {path} does not exist on {os.uname().nodename}; name a folder or file that every node sees"
    elif next(files(Path(path), suffixes), None) is None:
        yield f"dataset.path {path} has no file that ends in {' '.join(suffixes)} on {os.uname().nodename}"


def _cache_folder(chosen: str | None) -> Path:
    return Path(chosen) if chosen else task_dir() / "tokens"


@dataclass
class TextFiles:
    """The text of every .py, .txt, .md, .rst and .jsonl file under a folder, cut into sequences.

    Without a tokenizer tokens are bytes.
    """

    path: str | None = None
    """A folder or a file. None: the sources of Python's own standard library, which every machine has."""
    seq_len: int = 128
    """Tokens that the model sees at once."""
    tokenizer: str | None = None
    """A folder or a name on the Hugging Face hub. Each file then ends with the tokenizer's end-of-text token."""
    max_bytes: int | None = None
    """Only the first bytes of the text are read. None: all."""
    cache_dir: str | None = None
    """Where the tokens are kept for the next start. None: `tokens` in the task's folder."""

    @property
    def folder(self) -> str:
        return self.path or sysconfig.get_path("stdlib")

    def problems(self) -> Iterator[str]:
        yield from not_positive(self, "dataset", ["seq_len", "max_bytes"])
        yield from path_problems(self.folder, TEXT_SUFFIXES)

    def load(self, group: Group) -> Samples:
        from trainer.text import documents_of_files, windows
        from trainer.tokens import Cache

        found = list(files(Path(self.folder), TEXT_SUFFIXES))
        documents = documents_of_files(found, self.max_bytes)
        cache = Cache(_cache_folder(self.cache_dir), found, f"{self.max_bytes} bytes")
        return windows(documents, Path(self.folder), self.seq_len, self.tokenizer, cache, group)


@dataclass
class TextLines:
    """Text in JSON lines, `{"text": …}`, one after the other, cut into sequences: for continued pre-training."""

    path: str
    """A .jsonl file, or a folder of them."""
    tokenizer: str
    """A folder or a name on the Hugging Face hub. Each text then ends with the tokenizer's end-of-text token."""
    seq_len: int = 1024
    """Tokens that the model sees at once."""
    text_key: str = "text"
    cache_dir: str | None = None
    """Where the tokens are kept for the next start. None: `tokens` in the task's folder."""

    def problems(self) -> Iterator[str]:
        yield from not_positive(self, "dataset", ["seq_len"])
        yield from path_problems(self.path, JSONL_SUFFIXES)

    def load(self, group: Group) -> Samples:
        from trainer.text import documents_of_lines, windows
        from trainer.tokens import Cache

        found = list(files(Path(self.path), JSONL_SUFFIXES))
        documents = documents_of_lines(found, self.text_key)
        cache = Cache(_cache_folder(self.cache_dir), found, self.text_key)
        return windows(documents, Path(self.path), self.seq_len, self.tokenizer, cache, group)


@dataclass
class Completions:
    """Questions with their answers in JSON lines; the loss is that of the answers alone.

    Lines are `{"prompt": …, "completion": …}`, or `{"messages": [{"role": …, "content": …}, …]}`, of which every
    message of the assistant counts.
    """

    path: str
    """A .jsonl file, or a folder of them."""
    tokenizer: str
    """A folder or a name on the Hugging Face hub."""
    seq_len: int = 1024
    """Longer examples are cut off there; one whose completion is cut off altogether is left out."""
    chat_template: str | None = None
    """A file with a Jinja template for `messages`. None: the tokenizer's own."""

    def problems(self) -> Iterator[str]:
        yield from not_positive(self, "dataset", ["seq_len"])
        yield from path_problems(self.path, JSONL_SUFFIXES)
        if self.chat_template and not Path(self.chat_template).is_file():
            yield f"dataset.chat_template {self.chat_template} is no file on {os.uname().nodename}"

    def load(self, group: Group) -> Samples:
        from trainer.completions import load

        return load(self, files(Path(self.path), JSONL_SUFFIXES))
