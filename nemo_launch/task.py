"""What a recipe becomes before any executor sees it: words to run, environment, code. Frozen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Language = Literal["python", "shell"]


@dataclass(frozen=True)
class Code:
    """A set of files that travels with a job, named by its content. See ``packaging``."""

    root: str
    """Where the files come from: an absolute directory; ``inline`` (text given as text) or ``recipe`` (made of one)."""
    digest: str
    """sha256 over names, modes and contents (hex); also the name of its folder under ``snapshots``."""
    files: tuple[tuple[str, str], ...] = field(repr=False, default=())
    """(path relative to the root, ``100644``/``100755``/``120000``) of each file, sorted."""
    texts: Mapping[str, bytes] = field(repr=False, default_factory=dict)
    """Contents of files that exist nowhere on disk (inline scripts)."""
    commit: str | None = None
    dirty: int = 0
    """Number of modified or untracked files at the time of the snapshot."""
    notes: tuple[str, ...] = ()
    """What was left out and why, one line each, for people."""


@dataclass(frozen=True)
class Task:
    """One command with everything it needs, independent of where it runs.

    ``argv`` is the program and its arguments as the processes will get them, paths of the snapshot included; the
    interpreter is not part of it for Python (the executor knows which one).
    """

    name: str
    recipe: str
    """What the user named: the script's path as found, or ``inline``."""
    language: Language
    argv: tuple[str, ...]
    interpreter: tuple[str, ...] = ()
    """Words before ``argv``; empty for shell means: bash, or sh where there is no bash."""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names only; ``environment.secret_values`` finds the values at submission."""
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Values that were given in Python; never recorded."""
    code: tuple[Code, ...] = ()
    pythonpath: tuple[str, ...] = ()
    """Folders of the snapshot(s), first on PYTHONPATH in the job."""
    work_dir: str = ""
    after: tuple[str, ...] = ()
    """Names of tasks that must have succeeded before this one starts."""
    config: Mapping[str, Any] | None = None
    """Of a recipe in Python: every value by its place (see ``buildables.resolved``); None: it is a script."""

    members: tuple[Member, ...] = ()
    """Of a group: the commands that run side by side in its job (see ``groups``)."""

    def record(self) -> dict[str, Any]:
        """What task.json keeps; no secret value is in it."""
        return {
            "name": self.name,
            "recipe": self.recipe,
            "language": self.language,
            "argv": list(self.argv),
            "interpreter": list(self.interpreter),
            "env": dict(self.env),
            "secrets": list(self.secrets),
            "pythonpath": list(self.pythonpath),
            "work_dir": self.work_dir,
            "after": list(self.after),
            "code": [
                {
                    "root": c.root,
                    "digest": c.digest,
                    "commit": c.commit,
                    "dirty": c.dirty,
                    "notes": list(c.notes),
                }
                for c in self.code
            ],
            **({} if self.config is None else {"config": dict(self.config)}),
            **({"members": [member.record() for member in self.members]} if self.members else {}),
        }


@dataclass(frozen=True)
class Member:
    """One command of a group with its executor (an ``executors.base.Executor``, which is not known here)."""

    task: Task
    executor: Any

    def record(self) -> dict[str, Any]:
        """As part of the group's record."""
        from nemo_launch.executors import factory

        return {**self.task.record(), "executor": factory.record(self.executor)}


def digest(*parts: object) -> str:
    """A short stable name (16 hex digits) for a request made of JSON-like parts."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
