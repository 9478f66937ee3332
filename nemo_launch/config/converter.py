"""What may stand in a field of each type: strict for files and Python, text for the command line."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from nemo_launch.config.durations import Duration
from nemo_launch.config.hints import did_you_mean
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.resume import ResumeOn

if TYPE_CHECKING:
    from cattrs import Converter

_YES, _NO = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


class Text(str):
    """A value from the command line: text that stands for whatever the field holds."""

    __slots__ = ()


class Several(ValueError):
    """More than one thing is wrong with a field."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


@cache
def converter() -> Converter:
    """The one converter. It reports the errors of all fields together."""
    from cattrs import Converter

    made = Converter(detailed_validation=True, forbid_extra_keys=True)
    for kind, hook in _SCALARS.items():
        made.register_structure_hook(kind, hook)
    made.register_structure_hook(Duration, _duration)
    made.register_structure_hook(ResumeOn, lambda value, _: ResumeOn.parse(_bare(value)))
    made.register_structure_hook(VolumeMapping, lambda value, _: VolumeMapping.parse(_bare(value)))
    made.register_structure_hook_func(_is(Literal), _literal)
    made.register_structure_hook_factory(_is(tuple), lambda t: _tuple(made, get_args(t)[0]))
    made.register_structure_hook_func(_is(dict), _env)
    made.register_structure_hook_factory(_is_optional, lambda t: _optional(made, t))
    return made


def shown(value: object) -> str:
    """A value as an error shows it: short, and as the user may have typed it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "…"


def _bare(value: object) -> object:
    return str(value) if isinstance(value, str) else value


def _duration(value: object, _: object) -> Duration:
    if value is None:
        raise ValueError("null is not a duration: leave the field out for its default")
    return Duration.parse(_bare(value))


def _whole(value: object, _: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, Text) and value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20:
        return int(value)
    quoted = isinstance(value, str) and not isinstance(value, Text) and value.isdigit()
    raise ValueError(f"{shown(value)} is not a whole number{': write it without quotes' if quoted else ''}")


def _number(value: object, _: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Text):
        try:
            return float(value)
        except ValueError:
            pass
    raise ValueError(f"{shown(value)} is not a number")


def _yes_or_no(value: object, _: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if isinstance(value, Text) and word in _YES | _NO:
        return word in _YES
    fix = ": write it without quotes" if word in _YES | _NO else ""
    raise ValueError(f"{shown(value)} is neither true nor false{fix}")


def _text(value: object, _: object) -> str:
    if isinstance(value, str):
        return str(value)
    quote = isinstance(value, (bool, int, float))
    raise ValueError(f"{shown(value)} is not text{': quote it' if quote else ''}")


_SCALARS: dict[type, Callable[[object, object], Any]] = {
    int: _whole,
    float: _number,
    bool: _yes_or_no,
    str: _text,
}


def _literal(value: object, kind: Any) -> object:
    words = get_args(kind)
    for word in words:
        if isinstance(value, type(word)) and value == word:
            return word
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    raise ValueError(f"{shown(value)} is none of {', '.join(words)}{'. ' + hint if hint else ''}")


def _is(origin: object) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _is_optional(kind: Any) -> bool:
    args = get_args(kind)
    return get_origin(kind) in (Union, types.UnionType) and len(args) == 2 and type(None) in args


def _optional(made: Converter, kind: Any) -> Callable[[object, object], object]:
    inner = next(arg for arg in get_args(kind) if arg is not type(None))
    hook = made.get_structure_hook(inner)
    return lambda value, _: None if value is None else hook(value, inner)


def _tuple(made: Converter, item: Any) -> Callable[[object, object], tuple[object, ...]]:
    hook = made.get_structure_hook(item)

    def structure(value: object, _: object) -> tuple[object, ...]:
        if not isinstance(value, (list, tuple)):
            # The value is not shown: in `secrets` it may be one.
            fix = ": write [value]" if isinstance(value, str) else ""
            raise ValueError(f"{_kind(value)} is not a list{fix}")
        found, wrong = [], []
        for number, entry in enumerate(value, 1):
            try:
                found.append(hook(entry, item))
            except ValueError as error:
                wrong.append(f"entry {number}: {error}")
        if wrong:
            raise Several(wrong)
        return tuple(found)

    return structure


def _env(value: object, _: object) -> dict[str, str]:
    # No message shows a value: it may be a secret.
    if not isinstance(value, Mapping):
        raise ValueError(f"{_kind(value)} is not a mapping of names to values")
    found, wrong = {}, []
    for name, entry in value.items():
        if not isinstance(name, str):
            wrong.append(f"the name {shown(name)} is not text: quote it")
        elif isinstance(entry, bool):
            found[name] = "true" if entry else "false"
        elif isinstance(entry, (str, int, float)):
            found[name] = str(entry)
        elif entry is None:
            wrong.append(f'{name} has no value: write "" for an empty one, or leave it out')
        else:
            wrong.append(f"{name} is {_kind(entry)}, not text or a number")
    if wrong:
        raise Several(wrong)
    return found


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", dict: "a mapping"}
    if isinstance(value, str):
        return "text"
    if isinstance(value, (list, tuple)):
        return "a list"
    return names.get(type(value), f"a {type(value).__name__}")
