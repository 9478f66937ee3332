"""What is wrong with a config and can be told before it is submitted: every problem, with its place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from nemo_launch.buildables.fields import below, hints, named, signature
from nemo_launch.buildables.fits import fits, shown
from nemo_launch.config.hints import did_you_mean
from nemo_launch.errors import Problem
from nemo_launch.experiments.arguments import shown as value_shown


def problems(root: Any) -> list[Problem]:
    """Everything wrong with the graph below a ``Partial``: missing and wrong arguments, functions that do not run."""
    found = list(_not_run(root.__fn_or_cls__, ""))
    for path, node in nodes(root):
        found += _arguments(node, path, called=not path or not _is_partial(node))
        if path:
            found += _not_run(node.__fn_or_cls__, path, generators=False)
    return found


def nodes(root: Any) -> Iterator[tuple[str, Any]]:
    """Every config of a graph with its place, each once, outermost first. Circles are walked once."""
    import fiddle as fdl

    seen: set[int] = set()
    left = [("", root)]
    while left:
        path, one = left.pop()
        if isinstance(one, fdl.Buildable):
            children = list(one.__arguments__.items())
        elif isinstance(one, dict):
            children = list(one.items())
        elif isinstance(one, (list, tuple)):
            children = list(enumerate(one))
        else:
            continue
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, fdl.Buildable):
            yield path, one
        left += [(below(path, key), child) for key, child in reversed(children)]


def _is_partial(node: Any) -> bool:
    import fiddle as fdl

    return isinstance(node, fdl.Partial)


def _arguments(node: Any, path: str, called: bool) -> Iterator[Problem]:
    fn, given = node.__fn_or_cls__, node.__arguments__
    known = signature(fn)
    if known is None:
        return
    types = hints(fn)
    keys: list[Any] = []  # as fiddle stores them: what can only be given by position by its number
    any_name = False
    for number, (name, parameter) in enumerate(known.parameters.items()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            keys += [key for key in given if isinstance(key, int) and key >= number]
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            any_name = True
            continue
        key: Any = number if parameter.kind is parameter.POSITIONAL_ONLY else name
        keys.append(key)
        if key not in given:
            if called and parameter.default is parameter.empty:
                where = below(path, name)
                yield Problem(f"{named(fn)} needs it, and it is not set", where, f"Give it a value: {where}=…")
        elif name in types and not fits(given[key], types[name]) and _trusted(parameter, types[name]):
            what = f"{_value(given[key])} is given, and {named(fn)} takes {shown(types[name])}"
            yield Problem(what, below(path, key))
    for key in given if not any_name else ():
        if key not in keys:
            yield Problem(f"{named(fn)} takes no {key}", below(path, key), did_you_mean(str(key), map(str, keys)))


def _trusted(parameter: inspect.Parameter, hint: Any) -> bool:
    """Whether the annotation is meant: its own default need not contradict it (``layers: int = None``)."""
    default = parameter.default
    return default is parameter.empty or type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS" or fits(default, hint)


def _value(value: Any) -> str:
    import fiddle as fdl

    if isinstance(value, fdl.Buildable):
        return f"a {type(value).__name__} of {named(value.__fn_or_cls__)}"
    return value_shown(value)


def _not_run(fn: Any, where: str, generators: bool = True) -> Iterator[Problem]:
    """A function that, called, does none of its work."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    bare = inspect.unwrap(fn) if not isinstance(fn, type) else fn
    name = named(fn)
    if inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare):
        fix = f"Give a function that runs it: def run(): asyncio.run({name}())."
        yield Problem(f"{name} is an async function: calling it runs nothing", where or "recipe", fix)
    elif generators and inspect.isgeneratorfunction(bare):
        fix = f"Give a function that goes through it: def run(): list({name}())."
        yield Problem(f"{name} is a generator function: calling it runs nothing", where or "recipe", fix)
