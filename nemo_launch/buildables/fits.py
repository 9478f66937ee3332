"""Whether a value is of an annotated type. What is not understood fits: only what is surely wrong is refused."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import numbers
import types
import typing
from typing import Any

from nemo_launch.buildables.fields import hints

_TOWER: dict[Any, type] = {float: numbers.Real, int: numbers.Integral, complex: numbers.Complex}
_ALL_OF_ONE = (list, set, frozenset, collections.abc.Sequence, collections.abc.Set, collections.abc.MutableSequence)
_WRAPPERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "Annotated")


def plain(hint: Any) -> Any:
    """A type without what says nothing about values (``Annotated``, ``Final`` …); Any where it is unknown."""
    while True:
        origin = typing.get_origin(hint)
        if hasattr(hint, "__metadata__"):
            hint = hint.__origin__
        elif origin is not None and getattr(origin, "_name", "") in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif hint is None:
            return type(None)
        elif isinstance(hint, (str, typing.ForwardRef, typing.TypeVar)) or hint in (object, inspect.Parameter.empty):
            return Any
        else:
            return hint


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, ``Optional`` included; of anything else, itself."""
    hint = plain(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(one for member in typing.get_args(hint) for one in members(member))
    return (hint,)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may be given where ``hint`` is annotated. A config counts as what it makes."""
    return any(_fits(value, one) for one in members(hint))


def shown(hint: Any) -> str:
    """A type as it is written."""
    options = [
        one.__name__ if isinstance(one, type) and not typing.get_args(one) else repr(one) for one in members(hint)
    ]
    text = " or ".join("None" if option == "NoneType" else option for option in options)
    return text.replace("typing.", "").replace("collections.abc.", "")


def _fits(value: Any, hint: Any) -> bool:
    import fiddle as fdl

    if hint is Any:
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, fdl.Buildable):
        return _makes(value, origin or hint)
    if origin is typing.Literal:
        return any(value == one and type(value) is type(one) for one in args)
    kind = origin or hint
    if kind is collections.abc.Callable or kind is typing.Callable:
        return callable(value)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if not _isinstance(value, _TOWER.get(kind, kind)):
        return False
    return not args or _elements_fit(value, kind, args)


def _elements_fit(value: Any, kind: type, args: tuple[Any, ...]) -> bool:
    if kind is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return all(fits(one, args[0]) for one in value)
        wanted = () if args == ((),) else args
        return len(value) == len(wanted) and all(map(fits, value, wanted))
    if issubclass(kind, collections.abc.Mapping) and len(args) == 2 and isinstance(value, collections.abc.Mapping):
        return all(fits(key, args[0]) and fits(one, args[1]) for key, one in value.items())
    if kind in _ALL_OF_ONE and not isinstance(value, (str, bytes)):
        return all(fits(one, args[0]) for one in value)
    return True


def _makes(value: Any, kind: Any) -> bool:
    """Whether what a config makes is of a type."""
    import fiddle as fdl

    if not isinstance(kind, type):
        return kind is not typing.Literal
    if getattr(kind, "_is_protocol", False):
        return True
    if isinstance(value, fdl.Partial):
        called = kind is collections.abc.Callable or "__call__" in dir(kind) and kind is not type
        return called or _issubclass(functools.partial, kind)
    made = value.__fn_or_cls__
    if not isinstance(made, type):
        made = plain(hints(made).get("return", Any))
        made = typing.get_origin(made) or made
    if not isinstance(made, type) or getattr(made, "_is_protocol", False):
        return True
    # a function may return more than it says
    return _issubclass(made, _TOWER.get(kind, kind)) or (made is not value.__fn_or_cls__ and _issubclass(kind, made))


def _isinstance(value: Any, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except Exception:  # TypedDict, and classes with rules of their own
        return True


def _issubclass(made: type, kind: type) -> bool:
    try:
        return issubclass(made, kind)
    except Exception:
        return True
