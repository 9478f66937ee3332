"""Partial and ArgFactory as fiddle 0.3 builds them (fiddle/_src/partial.py, arg_factory.py), without fiddle.

An ArgFactory that is an argument of a Partial, or lies in a container that is one, is called anew at each call of the
partial; containers on the way to it are copied, everything else is shared.
"""

from __future__ import annotations

import collections
import functools
import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple


class Factory:
    """A built ArgFactory, until the Partial around it takes it over."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


class Fresh:
    """An argument of a partial that is made at each call."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


class Caller:
    """Calls a function with its ``Fresh`` arguments replaced by what they make."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target
        self.__wrapped__ = target  # inspect.signature

    def __call__(self, *args: Any, **named: Any) -> Any:
        made = [arg.call() if isinstance(arg, Fresh) else arg for arg in args]
        return self.target(*made, **{k: v.call() if isinstance(v, Fresh) else v for k, v in named.items()})


def factory(target: Callable[..., Any], args: List[Any], named: Dict[str, Any]) -> Factory:
    """What an ArgFactory builds."""
    return Factory(partial(target, args, named) if args or named else target)


def partial(target: Callable[..., Any], args: List[Any], named: Dict[str, Any]) -> Any:
    """What a Partial builds: ``functools.partial``."""
    args = [_promote(arg) for arg in args]
    named = {name: _promote(arg) for name, arg in named.items()}
    fresh = {name: arg for name, arg in named.items() if isinstance(arg, Factory)}
    plain = {name: arg for name, arg in named.items() if not isinstance(arg, Factory)}
    result: Any = target
    for are_fresh, group in itertools.groupby(args, lambda arg: isinstance(arg, Factory)):
        if are_fresh:
            result = _fresh(result, list(group), fresh)
            fresh = {}
        else:
            result = functools.partial(result, *group, **plain)
            plain = {}
    if fresh:
        result = _fresh(result, [], fresh)
    return functools.partial(result, **plain)


def _fresh(target: Any, args: List[Any], named: Dict[str, Any]) -> Any:
    made = [Fresh(arg.call) for arg in args]
    return functools.partial(Caller(target), *made, **{name: Fresh(arg.call) for name, arg in named.items()})


def _promote(arg: Any) -> Any:
    if isinstance(arg, Factory) or not _holds(arg, {}):
        return arg
    return Factory(functools.partial(_invoke, arg))


def _parts(container: Any) -> Tuple[Any, ...]:
    kind = type(container)
    if kind in (dict, collections.defaultdict):
        return tuple(container.values())
    if kind in (list, tuple) or (isinstance(container, tuple) and hasattr(kind, "_fields")):
        return tuple(container)
    return ()


def _holds(arg: Any, seen: Dict[int, bool]) -> bool:
    if isinstance(arg, Factory):
        return True
    if id(arg) not in seen:
        seen[id(arg)] = False
        seen[id(arg)] = any(_holds(part, seen) for part in _parts(arg))
    return seen[id(arg)]


def _invoke(arg: Any) -> Any:
    """A copy in which every factory is replaced by what it makes, each once."""
    made: Dict[int, Any] = {}

    def visit(node: Any) -> Any:
        if id(node) not in made:
            made[id(node)] = copied(node)
        return made[id(node)]

    def copied(node: Any) -> Any:
        if isinstance(node, Factory):
            return node.call()
        old = _parts(node)
        new = [visit(part) for part in old]
        if all(a is b for a, b in zip(old, new)):
            return node
        kind = type(node)
        if kind is dict:
            return dict(zip(node, new))
        if kind is collections.defaultdict:
            return collections.defaultdict(node.default_factory, zip(node, new))
        return kind(new) if kind in (list, tuple) else kind(*new)

    return visit(arg)
