"""What a function or class takes: its parameters and their types; and how a place in a config is written."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[^\W\d][\w-]*\Z")


def signature(fn: Any) -> inspect.Signature | None:
    """As fiddle sees it; None where there is none to be had (some builtins)."""
    from fiddle import signatures

    try:
        found: inspect.Signature = signatures.get_signature(fn)
        return found
    except (TypeError, ValueError):
        return None


def parameters(fn: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters that can be set by name."""
    found = signature(fn)
    known = found.parameters.items() if found else ()
    return {name: p for name, p in known if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def takes_any_name(fn: Any) -> bool:
    """Whether it has ``**kwargs``, or nobody knows."""
    found = signature(fn)
    return found is None or any(p.kind is p.VAR_KEYWORD for p in found.parameters.values())


def hints(fn: Any) -> dict[str, Any]:
    """Types of the parameters by name, and of ``return``; those that cannot be worked out here are left out."""
    if isinstance(fn, functools.partial):
        return hints(fn.func)
    if not isinstance(fn, type):
        return _hints_of(fn)
    if "__dataclass_fields__" in vars(fn) and "__init__" in vars(fn):  # strings stand for names where they were written
        found: dict[str, Any] = {}
        for base in reversed(fn.__mro__):
            found.update(
                _resolved(vars(base).get("__annotations__", {}), vars(sys.modules.get(base.__module__, typing)))
            )
        return {name: getattr(hint, "type", hint) if _is_initvar(hint) else hint for name, hint in found.items()}
    for base in fn.__mro__:
        for maker in ("__init__", "__new__"):
            if maker in vars(base) and base is not object:
                return {k: v for k, v in _hints_of(vars(base)[maker]).items() if k != "return"}
    return {}


def _hints_of(fn: Any) -> dict[str, Any]:
    fn = inspect.unwrap(getattr(fn, "__func__", fn))
    return _resolved(getattr(fn, "__annotations__", None) or {}, getattr(fn, "__globals__", {}))


def _resolved(annotations: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, hint in annotations.items():
        if isinstance(hint, str):
            try:
                hint = eval(hint, dict(scope))  # as typing.get_type_hints does, one by one
            except Exception:
                continue  # a name that only type checkers see
        found[name] = type(None) if hint is None else hint
    return found


def _is_initvar(hint: Any) -> bool:
    return type(hint).__name__ == "InitVar"


def named(fn: Any) -> str:
    """A function's or class's name, for people."""
    if isinstance(fn, functools.partial):
        return named(fn.func)
    return str(getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or repr(fn))


def below(path: str, key: Any) -> str:
    """The place of a field (text) or an element (number) below another: ``model.layers[2].act``, ``env["a b"]``."""
    if isinstance(key, str) and _NAME.match(key):
        return f"{path}.{key}" if path else key
    if isinstance(key, str):
        return f'{path}["{key}"]'
    return f"{path}[{key!r}]"
