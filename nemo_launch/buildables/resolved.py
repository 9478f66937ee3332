"""Every value of a config, defaults included, by its place: for people, and for the record."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from nemo_launch.buildables.fields import below, named, signature

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LONGEST = 400


def values(root: Any) -> dict[str, Any]:
    """Places and values in the order in which they were written, such as ``{"recipe": "train(…)", "steps": 3}``.

    Texts, numbers, booleans and None are as they are; whatever else is text.
    """
    found: dict[str, Any] = {}
    _add(found, root, "", ())
    return found


def text(values: Mapping[str, Any]) -> list[str]:
    """One line each: ``model.layers = 3``."""
    return [
        f"{place} = {value!r}" if not isinstance(value, _Made) else f"{place} = {value}"
        for place, value in values.items()
    ]


class _Made(str):
    """Text that stands for an object."""


def _add(found: dict[str, Any], one: Any, path: str, around: tuple[int, ...]) -> None:
    import fiddle as fdl

    if isinstance(one, fdl.Buildable):
        fn = one.__fn_or_cls__
        found[path or "recipe"] = _Made(f"{type(one).__name__}({_full(fn)})")
        children = _arguments(one)
    elif isinstance(one, dict) and one:
        children = dict(one)
    elif isinstance(one, (list, tuple)) and any(isinstance(x, (fdl.Buildable, list, tuple, dict)) for x in one):
        children = dict(enumerate(one))
    else:
        found[path] = _plain(one)
        return
    if id(one) in around:
        return
    for key, child in children.items():
        _add(found, child, below(path, key), (*around, id(one)))


def _arguments(node: Any) -> dict[Any, Any]:
    """What is set, and what the function itself gives where nothing is."""
    known = signature(node.__fn_or_cls__)
    own = dict(node.__arguments__)
    made: dict[Any, Any] = {}
    for number, (name, parameter) in enumerate(known.parameters.items() if known else ()):
        key: Any = number if parameter.kind is parameter.POSITIONAL_ONLY else name
        if key in own:
            made[key] = own.pop(key)
        elif type(parameter.default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
            made[key] = _Made(f"{_full(node.__fn_or_cls__.__dataclass_fields__[name].default_factory)}()")
        elif parameter.default is not parameter.empty:
            made[key] = parameter.default
    return {**made, **own}


def _full(fn: Any) -> str:
    module = getattr(fn, "__module__", None)
    return f"{module}.{named(fn)}" if module and module not in ("builtins", "__main__") else named(fn)


def _plain(value: Any) -> Any:
    if isinstance(value, _Made) or value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, type) or callable(value) and hasattr(value, "__qualname__"):
        return _Made(_full(value))
    try:
        shown = _ADDRESS.sub("", repr(value))
    except Exception:
        shown = f"a {type(value).__name__}"
    return _Made(shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…")
