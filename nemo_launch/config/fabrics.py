"""The network between the nodes of a GPU cluster type: what a job of several nodes needs to use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from nemo_launch.config.hints import did_you_mean
from nemo_launch.errors import Problem


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """One entry of ``multi_node``; presets.yaml says what each key means."""

    name: str
    directory: str
    source: str = ""
    source_env: Mapping[str, str] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    library_path: str = ""

    def words(self) -> Iterator[str]:
        """As the batch script reads it: ``key=value``, beginning with the directory (``runner.VALUES``)."""
        yield f"directory={self.directory}"
        yield f"name={self.name}"
        yield from (f"source_env={name}={value}" for name, value in self.source_env.items())
        if self.source:
            yield f"source={self.source}"
        yield from (f"env={name}={value}" for name, value in self.env_vars.items())
        yield from (f"mount={path}" for path in self.mounts)
        if self.library_path:
            yield f"library_path={self.library_path}"


_KEYS = tuple(f.name for f in fields(Fabric))
_PATHS = ("directory", "source", "library_path")


def read(value: object, place: Callable[[str], str]) -> tuple[tuple[Fabric, ...], list[Problem]]:
    """The fabrics of a preset's ``multi_node``; ``place`` finds where a key was written."""
    where = place("multi_node")
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        return (), [Problem("it is not a list of fabrics", where, "Write `- name: …` and `directory: …` below it.")]
    found, problems = [], []
    for entry in value:
        wrong = list(_wrong(entry))
        problems += [Problem(what, where, fix) for what, fix in wrong]
        if not wrong:
            mounts = tuple(entry.get("mounts", ()))
            found.append(Fabric(**{**entry, "mounts": mounts}))
    return tuple(found), problems


def _wrong(entry: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for key in entry:
        if key not in _KEYS:
            yield f"a fabric has no {key}", did_you_mean(str(key), _KEYS) or f"It has {', '.join(_KEYS)}."
    for key in ("name", "directory"):
        if key not in entry:
            yield f"a fabric needs {key}", ""
    for key in ("name", *_PATHS):
        text = entry.get(key)
        if key in entry and not (isinstance(text, str) and text):
            yield f"{key} of a fabric is not text", ""
        elif key in _PATHS and text and not text.startswith("/"):
            yield f"{key} of a fabric is {text!r}, not an absolute path", "Write it from / on."
    for key in ("source_env", "env_vars"):
        mapping = entry.get(key, {})
        if not isinstance(mapping, Mapping) or not all(
            isinstance(part, str) for pair in mapping.items() for part in pair
        ):
            yield f"{key} of a fabric is not a mapping of names to text", "Quote its values."
    mounts = entry.get("mounts", [])
    if not isinstance(mounts, list) or not all(isinstance(path, str) and path.startswith("/") for path in mounts):
        yield "mounts of a fabric is not a list of absolute paths", ""
    elif bad := [path for path in mounts if set(path) & set(" ,:\n\t")]:
        yield f"{bad[0]!r} cannot be mounted by pyxis", "Use a path without spaces, commas and colons."
