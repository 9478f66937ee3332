"""Values that are plainly what their fields hold, seen without the structuring library.

Most are: a record that is read back, a few flags. Importing the library takes longer than all else that a status does.
Whatever is not plain, and so everything that is wrong, is left to the library, which knows how to say it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from nemo_launch.config.converter import Text
from nemo_launch.config.durations import Duration
from nemo_launch.config.executor import Default, ExecutorConfig
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.resume import ResumeOn

C = TypeVar("C", bound=ExecutorConfig)


class _Doubt(ValueError):
    """It takes the library to tell."""


def exact(cls: type[C], values: Mapping[str, object]) -> C | None:
    """The config, if there is no doubt about any value; None: there is."""
    kinds = {field.name: str(field.type) for field in fields(cls)}
    try:
        return cls(**{key: _value(kinds[key], value) for key, value in values.items()})
    except (ValueError, KeyError):
        return None


def _value(kind: str, value: object) -> Any:
    plain = kind.removesuffix(" | None")
    if value is None and plain != kind:
        return None
    if plain.startswith("Literal["):
        word = _text(value)
        return word if word in re.findall(r"""["']([^"']*)["']""", plain) else _doubt(value)
    known = _KINDS.get(plain)
    return known(value) if known else _doubt(value)


def _doubt(value: object) -> Any:
    raise _Doubt


def _text(value: object) -> str:
    return str(value) if type(value) in (str, Text) else _doubt(value)


def _whole(value: object) -> int:
    if type(value) is Text and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if type(value) is int or type(value) is Default else _doubt(value)


def _each(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(map(item, value)) if type(value) in (list, tuple) else _doubt(value)


def _env(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Doubt
    return {_text(name): _text(entry) for name, entry in value.items()}


def _parsed(cls: Any) -> Callable[[object], Any]:
    return lambda value: cls.parse(str(value) if isinstance(value, str) else value)


_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _whole,
    "bool": lambda value: value if type(value) is bool else _doubt(value),
    "Duration": _parsed(Duration),
    "ResumeOn": _parsed(ResumeOn),
    "tuple[str, ...]": _each(_text),
    "tuple[int, ...]": _each(_whole),
    "tuple[VolumeMapping, ...]": _each(_parsed(VolumeMapping)),
    "dict[str, str]": _env,
}
