"""Values that a graph holds by what they are made of: scalars, enum members, and what a call of a class makes again."""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import enum
import fractions
import functools
import logging
import math
import pathlib
import re
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

#: ``scalar`` found none.
NO_SCALAR = object()


def scalar(value: Any) -> Any:
    """What stands for a scalar in JSON, or ``NO_SCALAR``. Exact types only: a subclass would lose its type."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if value is Ellipsis or value is NotImplemented:
        return {"constant": str(value)}
    return NO_SCALAR


class Member(NamedTuple):
    """A member of an enum: by name, or by value where it has no name of its own (combined flags)."""

    name: str | None
    value: Any


def member(value: Any) -> Member | None:
    """An enum's member."""
    if not isinstance(value, enum.Enum):
        return None
    name = value._name_
    if name is not None and type(value).__members__.get(name) is value:
        return Member(name, None)
    return Member(None, value._value_)


class Call(NamedTuple):
    """A value that a call makes."""

    target: Any
    """``module:name``, or an object."""
    args: Sequence[Any] = ()
    named: Mapping[str, Any] = types.MappingProxyType({})
    parts: bool = False
    """The arguments are the user's own values, so that messages name them one by one."""


def call(value: Any) -> Call | None:
    """The call that makes a value again."""
    kind = type(value)
    maker = _CALLS.get(kind) or _BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}")
    if maker:
        return maker(value)
    if value is type(None):  # types.NoneType is younger than Python 3.8
        return Call("builtins:type", [None])
    return _numpy(value) if kind.__module__.partition(".")[0] == "numpy" else None


def _numpy(value: Any) -> Call | None:
    """A dtype without fields, or a number of one."""
    import numpy

    if isinstance(value, numpy.dtype):
        return Call("numpy:dtype", [value.str]) if value.fields is None and value.kind in "biufcSUMm" else None
    if isinstance(value, numpy.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        name = value.dtype.name
        return Call(f"numpy:{'bool_' if name == 'bool' else name}", [value.item()])
    return None


def order(value: Any) -> tuple[str, str]:
    """Sorts a set, whose own order differs from process to process."""
    name = getattr(value, "__qualname__", None)
    return type(value).__qualname__, name if isinstance(name, str) else repr(value)


def shown(value: Any) -> str:
    """A key in a path."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _time_zone(value: Any) -> Call:
    return Call("zoneinfo:ZoneInfo", [value.key]) if value.key else Call("zoneinfo:ZoneInfo.from_file")


def _datetime(value: datetime.datetime) -> Call:
    parts = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return Call("datetime:datetime", [*parts, value.tzinfo], {"fold": value.fold})


def _time(value: datetime.time) -> Call:
    parts = [value.hour, value.minute, value.second, value.microsecond, value.tzinfo]
    return Call("datetime:time", parts, {"fold": value.fold})


def _partial(value: functools.partial[Any]) -> Call:
    return Call("functools:partial", [value.func, *value.args], value.keywords, parts=True)


def _zone(value: datetime.timezone) -> Call:
    name = value.__getinitargs__()  # type: ignore[attr-defined]
    return Call("datetime:timezone", name)


_CALLS: dict[type, Callable[[Any], Call]] = {
    complex: lambda v: Call("builtins:complex", [v.real, v.imag]),
    bytearray: lambda v: Call("builtins:bytearray", [bytes(v)]),
    range: lambda v: Call("builtins:range", [v.start, v.stop, v.step]),
    slice: lambda v: Call("builtins:slice", [v.start, v.stop, v.step]),
    datetime.timedelta: lambda v: Call("datetime:timedelta", [v.days, v.seconds, v.microseconds]),
    datetime.date: lambda v: Call("datetime:date", [v.year, v.month, v.day]),
    datetime.datetime: _datetime,
    datetime.time: _time,
    datetime.timezone: _zone,
    decimal.Decimal: lambda v: Call("decimal:Decimal", [str(v)]),
    fractions.Fraction: lambda v: Call("fractions:Fraction", [v.numerator, v.denominator]),
    uuid.UUID: lambda v: Call("uuid:UUID", [str(v)]),
    re.Pattern: lambda v: Call("re:compile", [v.pattern, int(v.flags)]),
    pathlib.PosixPath: lambda v: Call("pathlib:Path", [str(v)]),
    pathlib.PurePosixPath: lambda v: Call("pathlib:PurePosixPath", [str(v)]),
    pathlib.PureWindowsPath: lambda v: Call("pathlib:PureWindowsPath", [str(v)]),
    functools.partial: _partial,
    collections.OrderedDict: lambda v: Call("collections:OrderedDict", [list(v.items())], parts=True),
    collections.Counter: lambda v: Call("collections:Counter", [dict(v)], parts=True),
    collections.deque: lambda v: Call("collections:deque", [list(v), v.maxlen], parts=True),
    types.SimpleNamespace: lambda v: Call("types:SimpleNamespace", [], vars(v), parts=True),
    types.MappingProxyType: lambda v: Call("types:MappingProxyType", [dict(v)], parts=True),
    logging.Logger: lambda v: Call("logging:getLogger", [v.name]),
    logging.RootLogger: lambda v: Call("logging:getLogger"),
}
#: Of packages that may be absent here, by the full name of their type.
_BY_NAME: dict[str, Callable[[Any], Call]] = {
    "zoneinfo.ZoneInfo": _time_zone,
    "torch.device": lambda v: Call("torch:device", [str(v)]),
    "torch.Size": lambda v: Call("torch:Size", [list(v)]),
}
