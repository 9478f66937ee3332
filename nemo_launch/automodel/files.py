"""An AutoModel YAML file as it is read: strict, with the recipe's part apart from the section that says where."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_launch import runner
from nemo_launch.automodel import overrides
from nemo_launch.automodel.commands import MODULES, USUAL
from nemo_launch.config import loading, sections
from nemo_launch.config.loading import Document
from nemo_launch.errors import InputError, Problem

ENTRY = "automodel.py"
"""The program that runs on the node, among the files that travel."""


@dataclass(frozen=True)
class File:
    """What a file and the words behind it ask for."""

    document: Document
    text: str
    """The recipe's part, as it was written."""
    config: dict[str, Any]
    """The same with the overrides in it."""
    words: tuple[str, ...]
    """The overrides as they were typed."""
    target: str
    """What ``recipe:`` names; empty: nothing."""
    command: tuple[str, str]

    @property
    def path(self) -> str | None:
        """The file that ``recipe:`` names; None: it names something to import."""
        head, mark, _ = self.target.rpartition(":")
        path = head if mark else self.target
        return path if path.endswith(".py") else None

    def files(self, script: str = "") -> dict[str, bytes]:
        """What travels: the program and what it reads. ``script``: where ``path`` is on the nodes."""
        entry = self.target.rpartition(":")[2] if not self.target.endswith(".py") else "main"
        what = {
            "file": script,
            "target": entry,
            "targets": [self.target] if self.target else MODULES[self.command],
            "config": self.config if self.plain else None,
            "checkpoints": self.checkpoints,
            "restore_key": "checkpoint.restore_from" if self.automodel else "restore_from.path",
        }
        return {
            ENTRY: runner.text(ENTRY).encode(),
            "config.yaml": self.text.encode("utf-8", "surrogateescape"),
            "what.json": json.dumps(what, default=str, indent=1).encode(),
        }

    @property
    def plain(self) -> bool:
        """Whether it may get the config as a dict: what is AutoModel's reads the file."""
        here = self.path is not None or "." in self.target or ":" in self.target
        return here and not self.target.startswith("nemo_automodel.")

    @property
    def automodel(self) -> bool:
        """Whether it is written with AutoModel's names, ``checkpoint.restore_from``; else ``restore_from.path``."""
        checkpoint, steps = self.config.get("checkpoint"), self.config.get("step_scheduler")
        named = isinstance(checkpoint, Mapping) or (isinstance(steps, Mapping) and "ckpt_every_steps" in steps)
        return not self.plain or (named and "restore_from" not in self.config)

    @property
    def checkpoints(self) -> str:
        """The folder that the file names for checkpoints."""
        checkpoint = self.config.get("checkpoint")
        found = checkpoint.get("checkpoint_dir", "") if isinstance(checkpoint, Mapping) else ""
        return found if isinstance(found, str) else ""


def read(path: str, words: Sequence[str] = (), command: tuple[str, str] | None = None) -> File:
    """Read a file and the words of the command line that are for its recipe.

    Raises:
        InputError: everything that is wrong with them.
    """
    document = loading.read(path)
    if not document.values:
        fix = "Write the recipe's settings into it: `recipe: package.module.function`, or an AutoModel recipe."
        raise InputError(Problem("the file says nothing", path, fix))
    problems = list(_keys(document))
    try:
        sections.kind_of(document)
    except InputError as error:
        problems += error.problems
    target, more = _target(document, command)
    problems += more
    config, wrong = overrides.applied(sections.rest(document), words)
    problems += wrong
    if problems:
        raise InputError(dict.fromkeys(problems))
    text = sections.text_of_rest(document)
    return File(document, text, config, tuple(words), target, command or USUAL)


def _target(document: Document, command: tuple[str, str] | None) -> tuple[str, list[Problem]]:
    """What ``recipe:`` names, as AutoModel writes it: a path, or a mapping with ``_target_``."""
    if "recipe" not in document.values:
        if command or "model" in document.values:
            return "", []
        fix = "Add `recipe: package.module.function`, or say which of AutoModel's: finetune llm -c FILE."
        return "", [Problem("nothing in it says what to run: it has neither recipe nor model", document.source, fix)]
    value = document.values["recipe"]
    where = f"{document.where('recipe')}: recipe"
    if isinstance(value, Mapping):
        if "_target_" not in value:
            return "", [Problem("it has no _target_, which names what to run", where, "Write recipe: {_target_: …}.")]
        where, value = f"{document.where('recipe', '_target_')}: recipe._target_", value["_target_"]
    if not isinstance(value, str) or not value.strip():
        return "", [Problem("it is not the name of what to run", where, "Write it as in package.module.function.")]
    return _name(value.strip(), where)


def _name(value: str, where: str) -> tuple[str, list[Problem]]:
    head, mark, last = value.rpartition(":")
    if ".py:" in value or value.endswith(".py"):
        path, entry = (head, last) if ".py:" in value else (value, "main")
        good = path.endswith(".py") and entry.isidentifier()
    else:
        good = all(word.isidentifier() for word in value.replace(":", ".", 1).split("."))
    if good:
        return value, []
    fix = "Write package.module.function, path/to/file.py or path/to/file.py:function."
    return "", [Problem(f"{value!r} is no name that could be imported", where, fix)]


def _keys(document: Document) -> Iterator[Problem]:
    """Keys that are no text: a recipe finds nothing under ``1:`` or ``on:``."""
    for key in document.values:
        if not isinstance(key, str):
            yield Problem(f"the key {key!r} is not text", document.where(key), "Quote it.")
