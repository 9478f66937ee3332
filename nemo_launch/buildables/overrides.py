"""``key=value`` words of a command line: fields of a recipe's config, wherever they lie in it."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from nemo_launch.buildables import typed
from nemo_launch.buildables.fields import below, hints, named, parameters, signature, takes_any_name
from nemo_launch.buildables.fits import members
from nemo_launch.config.hints import did_you_mean
from nemo_launch.errors import Problem
from nemo_launch.experiments.arguments import shown as value_shown

_PART = re.compile(r"""\.?([^.\[\]="']+)|\[(-?[0-9]+)\]|\[(?:"([^"]*)"|'([^']*)')\]""")


class Override(NamedTuple):
    """One word: the place as it was typed, the keys on the way to it, and the text of the value."""

    place: str
    keys: tuple[str | int, ...]
    text: str


class _Refused(Exception):
    """What is wrong with one word: (what, what to do)."""


def parse(word: str) -> Override | None:
    """A word as an override: ``model.layers[2].act=gelu``, ``env["a.b"]=x``; None: it is no ``key=value``."""
    position = 0
    keys: list[str | int] = []
    while position < len(word) and word[position] != "=":
        part = _PART.match(word, position)
        if part is None or (part[1] is not None and (position == 0) == (part[0][0] == ".")):
            return None
        position = part.end()
        name, number, double, single = part.groups()
        keys.append(int(number) if number is not None else next(x for x in (name, double, single) if x is not None))
    if not keys or isinstance(keys[0], str) and keys[0].startswith("-") or word[position : position + 1] != "=":
        return None
    return Override(word[:position], tuple(keys), word[position + 1 :])


def apply(root: Any, words: Sequence[str]) -> list[Problem]:
    """Set the fields of a config, in place, in their order; every word that cannot be applied is a problem.

    Args:
        root: a fiddle ``Partial`` or ``Config``.
        words: as typed.
    """
    problems: list[Problem] = []
    given: dict[tuple[str | int, ...], str] = {}
    for word in words:
        override = parse(word)
        if override is None:
            what = f"{word!r} is no NAME=VALUE, and a recipe file takes no other words"
            problems.append(Problem(what, "", "Write NAME=VALUE, or launch a plain script: --entrypoint python."))
        elif given.setdefault(override.keys, override.text) != override.text:
            problems.append(Problem("it is given twice, with different values", override.place, "Keep one."))
        else:
            try:
                _changed(root, override.keys, "", override.text)
            except _Refused as refused:
                problems.append(Problem(refused.args[0], override.place, refused.args[1]))
    return problems


def _changed(one: Any, keys: Sequence[str | int], path: str, text: str) -> Any:
    """The object with the value set below it: itself where it can be changed, else a changed copy."""
    import fiddle as fdl

    key, rest = keys[0], keys[1:]
    if isinstance(one, fdl.Buildable):
        _change_config(one, key, rest, path, text)
        return one
    if isinstance(one, dict):
        return _change_dict(one, key, rest, path, text)
    if isinstance(one, (list, tuple)):
        return _change_list(one, key, rest, path, text)
    where = path or "it"
    if one is typed.UNSET:
        raise _Refused(
            f"{where} is not set, so nothing below it can be", f"Give it a Config in the recipe: {path}=nl.Config(…)."
        )
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        kind = type(one).__name__
        raise _Refused(f"{where} is a {kind} that is made already", f"Write nl.Config({kind}, …) in the recipe.")
    raise _Refused(f"{where} is {value_shown(one)}, which has no fields", "Only fields of a Config can be set.")


def _change_config(node: Any, key: str | int, rest: Sequence[str | int], path: str, text: str) -> None:
    fn, own = node.__fn_or_cls__, node.__arguments__
    hint: Any = Any
    if isinstance(key, int):
        keys = [k for k in own if isinstance(k, int)]
        if not keys:
            fix = f"It has {', '.join(parameters(fn))}." if parameters(fn) else ""
            raise _Refused(f"{path or named(fn)} is a config of {named(fn)}, whose fields have names", fix)
        if key not in own:
            raise _Refused(f"{named(fn)} has no positional argument {key}", f"It has {', '.join(map(str, keys))}.")
        current: Any = own[key]
        stored: str | int = key
    else:
        known = parameters(fn)
        if key not in known:
            near = did_you_mean(key, known) or (f"It takes {', '.join(known)}." if known else "")
            if not takes_any_name(fn) or (key not in own and did_you_mean(key, known)):
                raise _Refused(f"{named(fn)} takes no {key}", near)
            stored, current = key, own.get(key, typed.UNSET)
        else:
            parameter = known[key]
            only_position = parameter.kind is parameter.POSITIONAL_ONLY
            stored = list(signature(fn).parameters).index(key) if only_position else key  # type: ignore[union-attr]
            current = own[stored] if stored in own else _default(fn, key, parameter.default)
            hint = hints(fn).get(key, Any)
            if parameter.default is None and hint is not Any:
                hint = Optional[hint]  # noqa: UP045 - layers: int = None
    changed = _value(current, hint, rest, below(path, key), text)
    if isinstance(stored, int):
        node[stored] = changed
    else:
        setattr(node, stored, changed)


def _default(fn: Any, name: str, default: Any) -> Any:
    """What the field is when nobody sets it; a copy, as it may be changed."""
    if type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
        factory = fn.__dataclass_fields__[name].default_factory
        return factory() if factory in (list, dict, set) else typed.UNSET
    if default is parameters(_default)["default"].empty:
        return typed.UNSET
    return copy.deepcopy(default) if isinstance(default, (list, dict, set)) else default


def _change_dict(
    one: dict[Any, Any], key: str | int, rest: Sequence[str | int], path: str, text: str
) -> dict[Any, Any]:
    known = {str(k): k for k in one}
    if str(key) not in known:
        near = did_you_mean(str(key), known)
        if near or rest:
            fix = near or (f"It has {', '.join(known)}." if known else "")
            raise _Refused(
                f"{path} has no key {key}", f"{fix} To add a key, give the whole dict: {path}='{{…}}'.".strip()
            )
    stored = known.get(str(key), key)
    one[stored] = _value(one.get(stored, typed.UNSET), Any, rest, below(path, key), text)
    return one


def _change_list(one: Any, key: str | int, rest: Sequence[str | int], path: str, text: str) -> Any:
    number = int(key) if isinstance(key, int) or re.fullmatch("-?[0-9]+", key, re.ASCII) else None
    if number is None:
        raise _Refused(f"{path} is a {type(one).__name__}, and {key!r} is no number", f"Write {path}[0], say.")
    if not -len(one) <= number < len(one):
        count = f"{len(one)} element{'s' * (len(one) != 1)}"
        raise _Refused(f"{path} has {count}, and none with the number {number}", "The first is 0.")
    changed = list(one)
    changed[number] = _value(one[number], Any, rest, below(path, number), text)
    if isinstance(one, list):
        one[:] = changed  # whoever else has this list sees it, too
        return one
    return type(one)(*changed) if hasattr(one, "_fields") else type(one)(changed)


def _value(current: Any, hint: Any, rest: Sequence[str | int], path: str, text: str) -> Any:
    import fiddle as fdl

    if rest:
        return _changed(current, rest, path, text)
    try:
        if isinstance(current, fdl.Buildable):
            options = members(hint)
            if not text.strip() or typed.scalar(text) is not None or not {Any, type(None)} & set(options):
                kind = f"{type(current).__name__} of {named(current.__fn_or_cls__)}"
                first = next(iter(parameters(current.__fn_or_cls__)), "NAME")
                raise _Refused(f"it is a {kind}, which no text can stand for", f"Set its fields: {path}.{first}=…")
            return None
        return typed.value(text, hint, current)
    except typed.Misfit as misfit:
        what, _, fix = str(misfit).partition(". ")
        raise _Refused(what, fix) from None
