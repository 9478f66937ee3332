"""Builds a graph as ``fiddle.build`` does, from JSON, and calls its root. Standard library, Python 3.8.

A graph is ``{"nodes": [[kind, ...], ...], "root": value}``. Nodes come in the order in which fiddle finishes them, so a
node refers only to earlier ones, and each is built once. A value is a JSON scalar, ``[n]`` for node n, or a tagged
scalar that JSON lacks (``{"float": "nan"}``).
"""

from __future__ import annotations

import binascii
import collections
import importlib
import json
import os
import sys
import traceback  # at once: an import inside the hook makes Python forget that it ends by Ctrl-C

from . import factories

TYPE_CHECKING = False  # importing typing would cost more than building most graphs
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
ENTRY = os.path.join(os.path.dirname(os.path.dirname(HERE)), "recipe.py")


def run(folder: str) -> None:
    """Build the graph of a folder and call it. Exceptions pass, so that Python ends with its usual exit codes."""
    sys.excepthook = show
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as file:
        graph = json.load(file)
    target = build(graph)
    target()


def build(graph: Dict[str, Any]) -> Any:
    """What the root of a graph stands for."""
    built: List[Any] = []
    for node in graph["nodes"]:
        built.append(make(node, built))
    return value(graph["root"], built)


def make(node: List[Any], built: List[Any]) -> Any:
    """The object of one node."""
    return MAKERS[node[0]](built, *node[1:])


def value(item: Any, built: List[Any]) -> Any:
    """A value of the graph, decoded."""
    if isinstance(item, list):
        return built[item[0]]
    if isinstance(item, dict):
        ((tag, text),) = item.items()
        return SCALARS[tag](text)
    return item


def values(items: List[Any], built: List[Any]) -> List[Any]:
    """Several of them."""
    return [value(item, built) for item in items]


def pairs(items: List[Any], built: List[Any]) -> Dict[Any, Any]:
    """[[key, value], …] as a dict."""
    return {value(key, built): value(item, built) for key, item in items}


SCALARS: Dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": lambda text: int(text, 16),  # decimal text of any length is refused by newer Pythons
    "bytes": binascii.a2b_base64,
    "constant": {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}.__getitem__,
}


def _call(built: List[Any], fn: Any, args: List[Any], named: List[Any]) -> Any:
    return value(fn, built)(*values(args, built), **pairs(named, built))


def _buildable(maker: Callable[..., Any]) -> Callable[..., Any]:
    def make_it(built: List[Any], fn: Any, args: List[Any], named: List[Any], path: str) -> Any:
        target = value(fn, built)
        try:
            return maker(target, values(args, built), pairs(named, built))
        except BaseException as error:
            if not isinstance(error, (SystemExit, KeyboardInterrupt)):
                say("failed while building %s: %s" % (path, getattr(target, "__qualname__", target)))
            raise

    return make_it


def _enum(built: List[Any], cls: Any, name: Any, number: Any) -> Any:
    members = value(cls, built)
    return members(value(number, built)) if name is None else members[name]


def _name(built: List[Any], name: str, path: str) -> Any:
    return resolve(name, path)


MAKERS: Dict[str, Callable[..., Any]] = {
    "list": lambda built, items: values(items, built),
    "tuple": lambda built, items: tuple(values(items, built)),
    "set": lambda built, items: set(values(items, built)),
    "frozenset": lambda built, items: frozenset(values(items, built)),
    "dict": lambda built, items: pairs(items, built),
    "defaultdict": lambda built, default, items: collections.defaultdict(value(default, built), pairs(items, built)),
    "namedtuple": lambda built, cls, items: value(cls, built)(*values(items, built)),
    "enum": _enum,
    "name": _name,
    "call": _call,
    "config": _buildable(lambda target, args, named: target(*args, **named)),
    "partial": _buildable(factories.partial),
    "factory": _buildable(factories.factory),
}


class NotHere(ImportError):
    """Something that the recipe needs is not on this node. The message says all; nobody needs a traceback of ours."""


def resolve(name: str, path: str) -> Any:
    """The object that ``module:qualified.name`` (or ``module:``) stands for.

    Raises:
        NotHere: the module is absent, or is of a version without it.
    """
    module, _, attributes = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except NotHere:
        raise  # said already, by a module that travelled as text
    except ImportError as error:
        absent = getattr(error, "name", None) or ""
        if isinstance(error, ModuleNotFoundError) and (module + ".").startswith(absent + "."):
            raise NotHere(_absent("module %s" % absent, path)) from None
        raise NotHere(_absent("what module %s imports (%s)" % (module, error), path)) from error
    for attribute in attributes.split(".") if attributes else ():
        try:
            found = getattr(found, attribute)
        except AttributeError:
            version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
            what = "%s in module %s%s" % (attributes, module, version and " (version %s)" % version)
            raise NotHere(_absent(what, path)) from None
    return found


def _absent(what: str, path: str) -> str:
    return "%s is not here, and %s needs it. %s on %s was asked; install it there, or name another interpreter." % (
        what,
        path,
        sys.executable,
        os.uname().nodename.split(".")[0],
    )


def say(text: str) -> None:
    """A line of ours in the job's log."""
    sys.stderr.write("nemo_launch: %s\n" % text)


def show(kind: Any, error: BaseException, trace: Any) -> None:
    """Print an uncaught exception as Python does, without the frames that led from here to the user's code."""
    while trace is not None and _ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None and isinstance(error, NotHere):
        cause = error.__cause__
        if cause is not None:
            inner = cause.__traceback__
            while inner is not None and _ours(inner.tb_frame.f_code.co_filename):
                inner = inner.tb_next
            traceback.print_exception(type(cause), cause, inner)
        sys.stderr.write("ImportError: %s\n" % error)
        return
    traceback.print_exception(kind, error.with_traceback(trace), trace)


def _ours(filename: str) -> bool:
    full = os.path.abspath(filename)
    folder = os.path.dirname(full)
    return (
        filename.startswith("<frozen importlib")
        or full == ENTRY
        or folder in (HERE, os.path.dirname(HERE))
        or full == importlib.__file__
    )
