"""A fiddle graph -> a typed JSON graph, with all that its node needs to build and call it (``runner/build.py``).

``fiddle.build`` (0.3) walks buildables, lists, tuples, named tuples, dicts and defaultdicts of exactly these types,
each object once, and passes everything else on as it is. The graph keeps that: one node per object, in the order in
which fiddle finishes them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import fiddle as fdl
from fiddle import daglish
from fiddle._src.config import TaggedValueCls, tagged_value_fn

from nemo_launch import runner
from nemo_launch.buildables import encode_values
from nemo_launch.buildables.encode_names import Names, Refused
from nemo_launch.buildables.encode_sources import Sources
from nemo_launch.buildables.fields import below
from nemo_launch.errors import InputError, Problem

#: Files of ``runner/`` that travel with every recipe, and where they lie.
_CARRIED = {
    "recipe.py": "recipe.py",
    "build.py": "sources/nemo_launch_node/build.py",
    "factories.py": "sources/nemo_launch_node/factories.py",
    "sources.py": "sources/nemo_launch_node/sources.py",
}
#: The path of the root in messages; below it paths are written as overrides are.
ROOT = "recipe"


@dataclass(frozen=True)
class Encoded:
    """What must lie in one folder on the node; ``recipe.py`` in it is the program."""

    files: Mapping[str, bytes] = field(repr=False)
    """By path relative to the folder. Equal graphs give equal bytes."""
    notes: tuple[str, ...] = ()
    """What people should know, one line each."""


def encode(root: fdl.Buildable[Any], roots: Sequence[str]) -> Encoded:
    """Everything that the node needs to build a recipe and call it.

    Args:
        root: a ``Partial`` (fiddle's, this package's, NeMo-Run's): built on the node and called without arguments.
        roots: folders whose copy is on the job's PYTHONPATH; what is imported from below them is named, not copied.

    Raises:
        InputError: every part that cannot travel, by its path in the config.
    """
    if not isinstance(root, fdl.Buildable):
        raise InputError(Problem(f"a {type(root).__name__} is no recipe", ROOT, "Write Partial(function, ...)."))
    if not isinstance(root, fdl.Partial):
        fix = "Write Partial(function, ...), which is called on the node."
        raise InputError(Problem(f"a {type(root).__name__} is built and not called", ROOT, fix))
    problems: list[Problem] = []
    names = Names(roots, lambda value, path: sources.name(value, path))
    sources = Sources(lambda: Graph(names, problems), problems, names.roots)
    graph = Graph(names, problems)
    try:
        top = graph.value(root, "")
    except RecursionError:
        problems.append(Problem("the config is nested too deeply", ROOT, "Use fewer levels."))
    if problems:
        raise InputError(dict.fromkeys(problems))
    files = {path: runner.text(name).encode() for name, path in _CARRIED.items()}
    files["sources/nemo_launch_node/__init__.py"] = b'"""Builds a recipe on its node."""\n'
    files["graph.json"] = text(graph.nodes, top).encode()
    return Encoded({**files, **sources.files()}, tuple(sources.notes()))


def text(nodes: Iterable[Any], root: Any) -> str:
    """A graph as JSON, one node a line."""
    lines = ",\n".join(json.dumps(node, allow_nan=False, separators=(",", ":")) for node in nodes)
    return f'{{"root": {json.dumps(root)}, "nodes": [\n{lines}\n]}}\n'


class _Seen(NamedTuple):
    """What became of an object."""

    value: Any
    """As it is referred to."""
    makes: bool
    """An ArgFactory, or a container with one in it."""
    original: object
    """Keeps its id from being given to another object."""


class Graph:
    """Nodes, in the order in which they are built."""

    def __init__(self, names: Names, problems: list[Problem]) -> None:
        self.names, self.problems = names, problems
        self.nodes: list[list[Any]] = []
        self._seen: dict[tuple[int, bool], _Seen] = {}
        self._open: dict[tuple[int, bool], str] = {}
        self._named: dict[str, list[int]] = {}
        self._makes = False

    def value(self, value: Any, path: str, *, leaf: bool = False) -> Any:
        """A value as the graph holds it: a scalar, or a reference to its node.

        Args:
            path: where it lies, for messages.
            leaf: it lies in something that fiddle does not look into, so nothing in it is built or copied.
        """
        scalar = encode_values.scalar(value)
        if scalar is not encode_values.NO_SCALAR:
            return scalar
        key = (id(value), leaf)
        if key in self._seen:
            self._makes |= self._seen[key].makes
            return self._seen[key].value
        if key in self._open:
            what = f"it is {self._open[key] or 'the recipe'} itself: a config cannot contain itself"
            self.problems.append(Problem(what, path or ROOT, "Remove the reference."))
            return None
        outside, self._makes = self._makes, False
        self._open[key] = path
        try:
            done = self._node(value, path, leaf)
        except Refused as refused:
            self.problems.append(Problem(refused.what, path or ROOT, refused.fix))
            done = None
        finally:
            del self._open[key]
        self._seen[key] = _Seen(done, self._makes, value)
        self._makes |= outside
        return done

    def state(self) -> tuple[int, dict[Any, Any], dict[Any, Any]]:
        """For ``restore``."""
        return len(self.nodes), dict(self._seen), dict(self._named)

    def restore(self, state: tuple[int, dict[Any, Any], dict[Any, Any]]) -> None:
        """Forget what was added since."""
        del self.nodes[state[0] :]
        self._seen, self._named = dict(state[1]), dict(state[2])

    def _add(self, *node: Any) -> list[int]:
        self.nodes.append(list(node))
        return [len(self.nodes) - 1]

    def _node(self, value: Any, path: str, leaf: bool) -> Any:
        kind = type(value)
        if value is fdl.NO_VALUE:
            raise Refused("it has no value", "Set it.")
        if isinstance(value, fdl.Buildable):
            if leaf:
                what = "a config in here is never built: fiddle looks into lists, tuples and dicts alone"
                raise Refused(what, "Use one of these.")
            return self._buildable(value, path)
        if kind is list or kind is tuple:
            items = [self.value(item, f"{path}[{n}]", leaf=leaf) for n, item in enumerate(value)]
            return self._add(kind.__name__, items)
        if kind is dict:
            return self._add("dict", self._items(value, path, leaf))
        if kind is defaultdict:
            default = self.value(value.default_factory, f"{path}.default_factory", leaf=True)
            return self._add("defaultdict", default, self._items(value, path, leaf))
        if daglish.is_namedtuple_subclass(kind):
            cls = self._name(kind, path)
            fields = zip(kind._fields, value, strict=True)
            return self._add("namedtuple", cls, [self.value(v, f"{path}.{n}", leaf=leaf) for n, v in fields])
        if kind is set or kind is frozenset:
            items = sorted(value, key=encode_values.order)
            return self._add(kind.__name__, [self.value(item, f"{path}{{}}", leaf=True) for item in items])
        member = encode_values.member(value)
        if member is not None:
            cls = self._name(kind, path)
            return self._add("enum", cls, member.name, self.value(member.value, path, leaf=True))
        call = encode_values.call(value)
        if call is not None:
            return self._call(call, path)
        return self._name(value, path)

    def _call(self, call: encode_values.Call, path: str) -> list[int]:
        if isinstance(call.target, str):
            target = self._name(call.target, path)
        else:
            target = self.value(call.target, f"{path}.func", leaf=True)
        args = [self.value(arg, f"{path}[{n}]" if call.parts else path, leaf=True) for n, arg in enumerate(call.args)]
        named = [[name, self.value(arg, f"{path}.{name}", leaf=True)] for name, arg in call.named.items()]
        return self._add("call", target, args, named)

    def _items(self, value: Mapping[Any, Any], path: str, leaf: bool) -> list[list[Any]]:
        items = []
        for key, item in value.items():
            place = below(path, key)
            items.append([self.value(key, place, leaf=True), self.value(item, place, leaf=leaf)])
        return items

    def _name(self, value: Any, path: str) -> list[int]:
        """What is found by its name: a class, a function, a dtype, a module; or such a name."""
        name = value if isinstance(value, str) else self.names.name(value, path or ROOT)
        if name not in self._named:
            self._named[name] = self._add("name", name, path or ROOT)
        return self._named[name]

    # buildables ------------------------------------------------------------------------------------------------

    def _buildable(self, value: fdl.Buildable[Any], path: str) -> Any:
        kind = _kind(value)
        if kind == "tagged":
            return self._tagged(value, path)
        target = self.value(value.__fn_or_cls__, path, leaf=True)
        given, metadata = value.__flatten__()
        encoded = {}
        for name, item in zip(metadata.argument_names, given, strict=True):
            place = below(path, name)
            before, self._makes = self._makes, False
            encoded[name] = self.value(item, place)
            if self._makes and kind == "config":
                what = "an ArgFactory makes a value at each call of a Partial, and this is an argument of a Config"
                self.problems.append(Problem(what, place, "Write Config(...) here, or Partial(...) around it."))
            self._makes = before
        args, named = value.__signature_info__.transform_to_args_kwargs(encoded)
        self._makes = kind == "factory"
        return self._add(kind, target, args, [[name, item] for name, item in named.items()], path or ROOT)

    def _tagged(self, value: fdl.Buildable[Any], path: str) -> Any:
        if value.__fn_or_cls__ is not tagged_value_fn:
            raise Refused("a tagged value with a function of its own cannot be built", "Use TAG.new(default=...).")
        if value.__arguments__.get("value", fdl.NO_VALUE) is fdl.NO_VALUE:
            tags = ", ".join(sorted(str(tag) for tag in value.__argument_tags__["value"]))
            raise Refused(f"no value was set for {tags}", "Set one with fiddle.set_tagged, or give TAG.new a default.")
        return self.value(value.__arguments__["value"], path)


_KINDS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("config", fdl.Config.__build__),
    ("partial", fdl.Partial.__build__),
    ("factory", fdl.ArgFactory.__build__),
    ("tagged", TaggedValueCls.__build__),
)


def _kind(value: fdl.Buildable[Any]) -> str:
    """How it is built. Subclasses count as what they are made from, unless they build in their own way."""
    cls = type(value)
    for kind, build in _KINDS:
        if cls.__build__ is build and cls.__flatten__ is fdl.Buildable.__flatten__:
            return kind
    raise Refused(
        f"{cls.__module__}.{cls.__qualname__} builds in its own way, which the node does not know",
        "Use Config or Partial.",
    )
