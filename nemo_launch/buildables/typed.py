"""A value from the text of a command line: by the annotated type, else like the current value, else by YAML's rules.

YAML means version 1.2 here: ``yes``, ``12:00`` and ``0123`` are text, ``1e-3`` is a number.
"""

from __future__ import annotations

import collections.abc
import enum
import math
import os
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from nemo_launch.buildables.fits import members, shown
from nemo_launch.config.hints import did_you_mean

UNSET = object()
"""For a field that has no current value."""

_NULL = ("null", "Null", "NULL", "None", "~")
_BOOL = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)\Z", re.ASCII)
_BASED = re.compile(r"0(x[0-9a-fA-F]+|o[0-7]+)\Z", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z", re.ASCII)
_SPECIAL = re.compile(r"[-+]?\.?(inf|Inf|INF)\Z|\.?(nan|NaN|NAN)\Z", re.ASCII)
_SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)
_ABSTRACT = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
_DEEPEST = 50


class Misfit(ValueError):
    """The text is no value of that kind; the message says what would be."""


class _No(Misfit):
    """A misfit of which there is nothing to say but what was wanted."""


def value(text: str, hint: Any = Any, current: Any = UNSET) -> Any:
    """The value that a text stands for.

    Raises:
        Misfit: it stands for none.
    """
    options = members(hint)
    if options == (Any,):
        return _like(text, current)
    told: list[Misfit] = []
    for option in sorted(options, key=_rank):
        try:
            return _of(text, option, current)
        except _No:
            continue
        except Misfit as misfit:
            told.append(misfit)
    known = [option for option in options if option is not type(None) and _rank(option) < _HOPELESS]
    if not known:
        raise Misfit(f"{shown(hint)} cannot be written on the command line. Set it in the recipe file.")
    if not text:
        raise Misfit(f"its value is empty, and {shown(hint)} is wanted. Is a variable unset?")
    if len(told) == 1 and text[0] in "[{":
        raise told[0]
    raise Misfit(f"{text!r} is given, and {shown(hint)} is wanted.{_words(text, known) or _advice(known)}")


_MOST = 20


def _words(text: str, options: list[Any]) -> str:
    """Which members of an enum, or words of a Literal, were perhaps meant; of an enum, which there are."""
    members_of = [name for kind in options if _is(kind, enum.Enum) for name in kind.__members__]
    words = [str(one) for kind in options if typing.get_origin(kind) is typing.Literal for one in typing.get_args(kind)]
    if near := did_you_mean(text, [*members_of, *words]):
        return f" {near}"
    more = ", …" if len(members_of) > _MOST else ""
    return f" There are {', '.join(members_of[:_MOST])}{more}." if members_of else ""


def _advice(options: list[Any]) -> str:
    kinds = [_container(option) for option in options]
    if any(kind in _SEQUENCES for kind in kinds):
        return " A list is written '[a, b]'."
    if dict in kinds:
        return " A dict is written '{a: 1, b: 2}'."
    return ""


_HOPELESS = 9


def _rank(option: Any) -> int:
    """Of several types that a text may be, the most special first: text itself comes last."""
    kind = typing.get_origin(option) or option
    if option is Any:
        return 7
    if kind is type(None):
        return 0
    if kind is typing.Literal or _is(kind, enum.Enum):
        return 1
    for number, one in enumerate((int, bool, float, complex), 2):
        if kind is one:
            return number
    if _container(option) is not None:
        return 6
    if _is(kind, os.PathLike) or _is_dtype(kind):
        return 6
    return 8 if kind in (str, bytes) else _HOPELESS


def _is(kind: Any, parent: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, parent)


def _is_dtype(kind: Any) -> bool:
    return isinstance(kind, type) and (kind.__module__, kind.__name__) == ("torch", "dtype")


def _container(option: Any) -> Any:
    kind = typing.get_origin(option) or option
    kind = _ABSTRACT.get(kind, kind)
    return kind if kind is dict or kind in _SEQUENCES else None


def _of(text: str, option: Any, current: Any) -> Any:
    kind = typing.get_origin(option) or option
    if kind is typing.Literal:
        return _one(text, {str(one): one for one in typing.get_args(option)})
    if option is Any:
        return _like(text, current)
    if _container(option) is not None:
        return _nested(_node(text), option)
    maker = _MAKERS.get(kind)
    if maker is not None:
        return maker(text)
    if _is(kind, enum.Enum):
        return _enum(text, kind)
    if _is(kind, pathlib.PurePath) or kind is os.PathLike:
        if not text:
            raise _No("empty")
        return (pathlib.Path if kind is os.PathLike else kind)(text)
    if _is_dtype(kind):
        found = getattr(sys.modules["torch"], text.removeprefix("torch."), None)
        if isinstance(found, kind):
            return found
    raise _No("hopeless")


def _one(text: str, options: dict[str, Any]) -> Any:
    if text in options:
        return options[text]
    raise _No("none of them")


def _enum(text: str, kind: Any) -> Any:
    return _one(text, {**{str(one.value): one for one in kind}, **kind.__members__})


def _null(text: str) -> None:
    if text not in _NULL:
        raise _No("not null")


def _bool(text: str) -> bool:
    return bool(_one(text.lower(), _BOOL))


def _int(text: str) -> int:
    if _BASED.match(text):
        return int(text, 0)
    if re.fullmatch(r"[-+]?[0-9]+(_[0-9]+)*", text, re.ASCII):
        return int(text)
    if _FLOAT.match(text) and math.isfinite(float(text)) and float(text).is_integer():
        return int(float(text))  # 1e6
    raise _No("no int")


def _float(text: str) -> float:
    if _FLOAT.match(text) or re.fullmatch(r"[-+]?[0-9]+(_[0-9]+)*", text, re.ASCII):
        return float(text)
    if _SPECIAL.match(text):
        return float(text.replace(".", ""))
    raise _No("no float")


def _complex(text: str) -> complex:
    try:
        return complex(text)
    except ValueError:
        raise _No("no complex number") from None


_MAKERS: dict[Any, Callable[[str], Any]] = {
    type(None): _null,
    bool: _bool,
    int: _int,
    float: _float,
    complex: _complex,
    str: str,
    bytes: lambda text: text.encode("utf-8", "surrogateescape"),
}


def _like(text: str, current: Any) -> Any:
    """Where no type is annotated."""
    if current is UNSET or current is None:
        return _nested(_node(text), Any) if text[:1] in ("[", "{", '"', "'") else scalar(text)
    if text in _NULL:
        return None
    kind = type(current)
    if isinstance(current, (list, tuple, set, frozenset, dict)):
        made = _nested(_node(text), dict if isinstance(current, dict) else kind if kind in _SEQUENCES else list)
        if kind in (list, dict, *_SEQUENCES):
            return made
        raise Misfit(f"a {kind.__name__} cannot be written on the command line. Set it in the recipe file.")
    if kind is int:  # a default of 1 does not mean that 0.5 is wrong
        return value(text, typing.Union[int, float])  # noqa: UP007
    if kind in _MAKERS or isinstance(current, (enum.Enum, pathlib.PurePath)) or _is_dtype(kind):
        return value(text, pathlib.Path if isinstance(current, pathlib.PurePath) else kind)
    if isinstance(current, (type, types.FunctionType, types.BuiltinFunctionType)):
        raise Misfit("a function or class cannot be written on the command line. Set it in the recipe file.")
    raise Misfit(f"a {kind.__name__} cannot be written on the command line. Set it in the recipe file.")


def scalar(text: str) -> Any:
    """By the rules of YAML 1.2, with Python's ``None`` besides; what is nothing else is text."""
    if text in _NULL:
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INT.match(text) or _BASED.match(text):
        return _int(text)
    if _FLOAT.match(text) and not re.match(r"[-+]?0[0-9]", text):
        return float(text)
    return _float(text) if _SPECIAL.match(text) and "." in text else text


def _node(text: str) -> Any:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it cannot be read"
        quote = " Text that begins with a bracket is written in two pairs of quotes: NAME='\"[a\"'."
        raise Misfit(f"{text!r} is no list or dict in YAML or JSON: {problem}.{quote}") from None
    if node is None:
        raise Misfit("its value is empty. Is a variable unset?")
    return node


def _nested(node: Any, hint: Any, depth: int = 0) -> Any:
    import yaml

    if depth > _DEEPEST:
        raise Misfit("it is nested too deeply.")
    if isinstance(node, yaml.ScalarNode):
        if members(hint) == (Any,):
            return node.value if node.style else scalar(node.value)
        if any(_container(option) is not None for option in members(hint)) and node.style is None:
            raise Misfit(f"{node.value!r} is given, and {shown(hint)} is wanted.{_advice(list(members(hint)))}")
        return value(node.value, hint)
    is_list = isinstance(node, yaml.SequenceNode)
    for option in members(hint):
        kind = _container(option) if option is not Any else list if is_list else dict
        args = typing.get_args(option) if option is not Any else ()
        if kind is dict and not is_list:
            return _mapping(node, args, depth)
        if kind in _SEQUENCES and is_list:
            return _sequence(node, kind, args, depth, hint)
    raise Misfit(f"a {'list' if is_list else 'dict'} is given, and {shown(hint)} is wanted.")


def _mapping(node: Any, args: tuple[Any, ...], depth: int) -> dict[Any, Any]:
    key_hint, value_hint = args if len(args) == 2 else (Any, Any)
    made: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = _nested(key_node, key_hint, depth + 1)
        if value_node.value == "" and value_node.style is None and ":" in str(key_node.value):
            raise Misfit(f"{key_node.value!r} has no space after its colon.")
        try:
            twice = key in made
        except TypeError:
            raise Misfit("a list or dict cannot be a key.") from None
        if twice:
            raise Misfit(f"the key {key!r} is given twice.")
        made[key] = _nested(value_node, value_hint, depth + 1)
    return made


def _sequence(node: Any, kind: Any, args: tuple[Any, ...], depth: int, hint: Any) -> Any:
    if kind is tuple and args and args[-1] is not Ellipsis:
        if len(args) != len(node.value) and args != ((),):
            raise Misfit(f"{len(node.value)} elements are given, and {shown(hint)} is wanted.")
        wanted = list(args)
    else:
        wanted = [args[0] if args else Any] * len(node.value)
    made = [_nested(one, element, depth + 1) for one, element in zip(node.value, wanted, strict=False)]
    try:
        return kind(made)
    except TypeError:
        raise Misfit("a list or dict cannot be in a set.") from None
