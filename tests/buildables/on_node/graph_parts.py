"""What the graphs of these tests are made of. The node imports a copy of this file: standard library, Python 3.8."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from typing import Any


class Thing:
    """Remembers how it was made."""

    def __init__(self, a: Any = None, *args: Any, b: Any = 2, **rest: Any) -> None:
        self.a, self.args, self.b, self.rest = a, args, b, rest

    @classmethod
    def made(cls, a: Any = None, **rest: Any) -> Thing:
        return cls(a, **rest)

    @staticmethod
    def still(a: Any = None) -> Any:
        return [a]

    class Inner:
        def __init__(self, x: Any = None) -> None:
            self.x = x


class Heir(Thing):
    pass


@dataclasses.dataclass
class Data:
    x: Any = 1
    y: Any = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "left right")


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    CRIMSON = 1


class Flags(enum.IntFlag):
    A = 1
    B = 2
    C = 8


def positional(a: Any, b: Any = 5, /, c: Any = 6, *rest: Any, d: Any = 7, **more: Any) -> Any:
    return Thing(a, b, c, *rest, b=d, **more)


def plain(a: Any = None, b: Any = (), c: Any = 3) -> Any:
    return {"a": a, "b": b, "c": c}


@functools.wraps(plain)
def wrapped(*args: Any, **named: Any) -> Any:
    return ["wrapped", plain(*args, **named)]


counter = functools.lru_cache(maxsize=None)(lambda: 0)


def same(a: Any = None) -> Any:
    """Its argument: what it was given is what comes out."""
    return a
