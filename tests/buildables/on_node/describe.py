"""An object as plain text: what it is made of, and which parts are one object. Runs here and on the node."""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import json
import re
import sys
import types
from typing import Any

ALONE = (str, int, float, bytes, type(None), type(Ellipsis), type(NotImplemented))
#: What fiddle calls what the node has under other names.
NAMES = {"_InvokeArgFactoryWrapper": "Caller", "ArgFactory": "Fresh"}


class Describer:
    """One description; objects are numbered in the order in which they are met."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []

    def tell(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return [kind.__qualname__, repr(value.value)]
        if isinstance(value, ALONE):
            return [kind.__name__, repr(value)]
        if value == () and kind is tuple:
            return ["tuple"]
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return ["named", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
        if isinstance(value, types.MethodType):
            return ["method", value.__name__, self.tell(value.__self__)]
        if id(value) in self.seen:
            return ["same as", self.seen[id(value)]]
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        return [self.seen[id(value)], NAMES.get(kind.__name__, kind.__name__), *self.parts(value)]

    def parts(self, value: Any) -> list[Any]:
        if isinstance(value, (set, frozenset)):
            return sorted((self.tell(part) for part in value), key=str) if alone(value) else [sorted(map(repr, value))]
        if isinstance(value, (list, tuple, collections.deque)):
            return [self.tell(part) for part in value]
        if isinstance(value, (dict, types.MappingProxyType)):
            default = [self.tell(value.default_factory)] if isinstance(value, collections.defaultdict) else []
            return default + [[self.tell(key), self.tell(part)] for key, part in value.items()]
        if isinstance(value, functools.partial):
            return [self.tell(value.func), self.tell(value.args), self.tell(value.keywords)]
        if type(value).__name__ in ("Caller", "_InvokeArgFactoryWrapper"):
            return [self.tell(value.target if hasattr(value, "target") else value.func)]
        if type(value).__name__ in ("Fresh", "ArgFactory"):
            return ["fresh"]  # what it makes is seen when the partial is called
        if hasattr(value, "__dict__") and type(value).__module__ == "graph_parts":
            return [self.tell(vars(value))]
        return [re.sub(r" at 0x\w+", "", repr(value))]


def alone(value: Any) -> bool:
    return all(isinstance(part, ALONE) for part in value)


def describe(target: Any) -> str:
    """The target (a partial of ``graph_parts.same``), and what it gives at two calls."""
    describer = Describer()
    return json.dumps([describer.tell(target), calls(target(), describer), calls(target(), describer)])


def calls(value: Any, describer: Describer) -> Any:
    """A result, and what comes of calling the partials in it."""
    told = describer.tell(value)
    inner = value if isinstance(value, (list, tuple)) else [value]
    return [told, [describer.tell(part()) for part in inner if isinstance(part, functools.partial)]]


def serve() -> None:
    """Answer graphs, one a line, with their descriptions."""
    build = importlib.import_module("nemo_launch_node.build")

    for line in sys.stdin:
        try:
            answer = describe(build.build(json.loads(line)))
        except Exception as error:
            answer = json.dumps(["failed", type(error).__name__, str(error).split("\n")[0]])
        print(answer, flush=True)


if __name__ == "__main__":
    assert not [name for name in sys.modules if name.startswith(("nemo_launch", "fiddle"))]
    serve()
