"""``Config``, ``Partial`` and ``autoconvert``: fiddle's objects with NeMo-Run's names and habits."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import fiddle as fdl
from fiddle.experimental import auto_config as fdl_auto_config
from fiddle.experimental import dataclasses as fdl_dataclasses

from nemo_launch.buildables.fields import named, parameters, signature, takes_any_name
from nemo_launch.config.hints import did_you_mean
from nemo_launch.errors import InputError, Problem

P = ParamSpec("P")
T = TypeVar("T")


class WrongArguments(InputError, TypeError):
    """What a ``Config`` or ``Partial`` was given does not go with its function; a TypeError, too, as in fiddle."""


class _Shared(Generic[T]):
    """What NeMo-Run adds to fiddle's objects, and errors that name what was perhaps meant."""

    def __init__(self, fn_or_cls: Callable[..., T], /, *args: Any, **kwargs: Any) -> None:
        super().__init__(*_bound(type(self), fn_or_cls, args), **_arguments(type(self), fn_or_cls, kwargs))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError as error:
            raise _no_field(self, name, error) from None

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except AttributeError as error:
            raise _no_field(self, name, error) from None

    def clone(self) -> Any:
        """A deep copy."""
        return copy.deepcopy(self)

    def broadcast(self, **values: Any) -> Any:
        """Set each named field to a value wherever it occurs, here and in nested configs; returns this object."""
        for node in _below(self):
            for name in values.keys() & set(parameters(node.__fn_or_cls__)):
                setattr(node, name, values[name])
        return self

    def walk(self, **functions: Callable[[Any], Any]) -> Any:
        """As ``broadcast``, with functions that get the config that holds the field and return its new value."""
        for node in _below(self):
            for name in functions.keys() & set(parameters(node.__fn_or_cls__)):
                setattr(node, name, functions[name](node))
        return self


class Config(_Shared[T], fdl.Config):  # type: ignore[misc]
    """An object to be made where the task runs: a class, or a function that returns it, with its arguments.

    A dataclass instance among the arguments becomes a ``Config`` of its class, so that its fields can be overridden.

    Raises:
        InputError: an argument that the function does not take; the message names a near one.
    """


class Partial(_Shared[T], fdl.Partial):  # type: ignore[misc]
    """A function to be called where the task runs, with its arguments: what ``Experiment.add`` takes.

    A dataclass instance among the arguments becomes a ``Config`` of its class, so that its fields can be overridden.

    Raises:
        InputError: an argument that the function does not take; the message names a near one.
    """


@overload
def autoconvert(fn: Callable[P, Any]) -> Callable[P, Any]: ...
@overload
def autoconvert(*, partial: bool = False) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...
def autoconvert(fn: Callable[..., Any] | None = None, *, partial: bool = False) -> Any:
    """Make a function that returns an object return the ``Config`` of that object instead (``Partial``: ``partial``).

    Calls in its body become configs and are not made; calls of other converted functions, and of ``Config`` and
    ``Partial``, are. Its source is read when it is called; it may not branch or loop. With or without parentheses::

        @nl.autoconvert
        def optimizer(lr: float = 1e-3) -> AdamW:
            return AdamW(lr=lr, betas=(0.9, 0.95))
    """
    if fn is None:
        return lambda fn: _converter(fn, partial)
    return _converter(fn, partial)


def _converter(fn: Callable[..., Any], partial: bool) -> Callable[..., Any]:
    target = Partial if partial else Config

    @functools.wraps(fn)
    def converted(*args: Any, **kwargs: Any) -> Any:
        rewritten = fdl_auto_config.auto_config(
            fn,
            experimental_allow_dataclass_attribute_access=True,
            experimental_exemption_policy=_is_made,
            experimental_config_types=fdl_auto_config.ConfigTypes(config_cls=Config, partial_cls=Partial),
        )
        made = rewritten.as_buildable(*args, **kwargs)
        return [_cast(target, one) for one in made] if isinstance(made, list) else _cast(target, made)

    converted.wrapped = fn  # type: ignore[attr-defined]
    converted.__auto_config__ = True  # type: ignore[attr-defined]
    return converted


def _no_field(config: Any, name: str, error: AttributeError) -> AttributeError:
    fn = vars(config).get("__fn_or_cls__")
    known = parameters(fn) if fn is not None and not name.startswith("__") else {}
    if fn is None or name.startswith("_"):
        return error
    if name in known:
        return AttributeError(f"{name} of {named(fn)} is not set")
    return AttributeError(f"{named(fn)} takes no {name}. {did_you_mean(name, known) or _list(known)}")


def _is_made(called: Any) -> bool:
    """Whether a call inside a converted function is made rather than turned into a config."""
    is_config = isinstance(called, type) and issubclass(called, fdl.Buildable)
    return is_config or bool(getattr(called, "__auto_config__", False))


def _cast(target: type, made: Any) -> Any:
    return target.__unflatten__(*made.__flatten__())  # type: ignore[attr-defined]


def _below(root: Any) -> list[Any]:
    """All configs of a graph, each once, the root first."""
    found: dict[int, Any] = {}
    left = [root]
    while left:
        one = left.pop()
        if isinstance(one, fdl.Buildable):
            if id(one) in found:
                continue
            found[id(one)] = one
            left += reversed(list(one.__arguments__.values()))
        elif isinstance(one, dict):
            left += reversed(list(one.values()))
        elif isinstance(one, (list, tuple)):
            left += reversed(one)
    return list(found.values())


def _bound(kind: type, fn: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The function and its positional arguments.

    Raises:
        WrongArguments: it is no function, or takes fewer.
    """
    if isinstance(fn, fdl.Buildable):
        fix = f"Copy it with .clone(), or write {kind.__name__}(function, …)."
        raise WrongArguments(Problem(f"{named(fn.__fn_or_cls__)} is configured already", kind.__name__, fix))
    if not callable(fn):
        what = f"{fn!r} is neither a function nor a class"
        raise WrongArguments(Problem(what, kind.__name__, f"Write {kind.__name__}(function, name=value)."))
    known = list(found.parameters.values()) if (found := signature(fn)) else []
    most = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in known)
    if len(args) > most and known and not any(p.kind is p.VAR_POSITIONAL for p in known):
        what = f"it takes {most} positional argument{'s' * (most != 1)}, and {len(args)} were given"
        raise WrongArguments(Problem(what, f"{kind.__name__}({named(fn)})"))
    return (fn, *map(_converted, args))


def _arguments(kind: type, fn: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name.

    Raises:
        WrongArguments: one that the function does not take.
    """
    if not takes_any_name(fn) and (known := parameters(fn)):
        wrong = [
            Problem(f"{named(fn)} takes no {name}", kind.__name__, did_you_mean(name, known) or _list(known))
            for name in kwargs
            if name not in known
        ]
        if wrong:
            raise WrongArguments(wrong)
    return {name: _converted(value) for name, value in kwargs.items()}


def _list(known: Any) -> str:
    return f"It takes {', '.join(known)}." if known else "It takes no arguments."


def _converted(value: Any) -> Any:
    """A dataclass instance as a config; whatever else as it is."""
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return value
    try:
        return _cast(Config, fdl_dataclasses.convert_dataclasses_to_configs(value, allow_post_init=True))
    except Exception:  # fields that its __init__ does not take: then it stays what it is, and is told of later
        return value
