"""What callers of the Python interface hand over by mistake, and what they meant, in one clear error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from nemo_launch.errors import InputError, Problem

_EXECUTOR = ("kind", "config", "transport", "check", "plan", "submit", "poll")


def shown(value: object) -> str:
    """The value with its type, in at most a line."""
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    return text if value is None else f"{text} ({type(value).__name__})"


def text(value: object, where: str, what: str) -> str:
    """A text that is not empty.

    Raises:
        InputError: it is none.
    """
    if isinstance(value, str) and value:
        return value
    raise InputError(Problem(f"{what} is a text, not {shown(value)}", where))


def executor(value: Any, where: str) -> None:
    """Something that runs tasks.

    Raises:
        InputError: it is no executor.
    """
    if isinstance(value, type):
        what, fix = f"{value.__name__} is a class", f"Make one: {value.__name__}(...)."
    elif isinstance(value, str):
        what, fix = f"{value!r} is a name, not an executor", f"Write nemo_launch.executor({value!r})."
    elif _is_config(value):
        kind = type(value).__name__
        maker = kind.removesuffix("Config") + "Executor"
        what, fix = f"a {kind} is not an executor yet", f"Write {maker}({kind}(...))."
    elif all(hasattr(value, name) for name in _EXECUTOR):
        return
    else:
        what, fix = f"{shown(value)} is no executor", "Give a LocalExecutor(...) or a SlurmExecutor(...)."
    raise InputError(Problem(what, where, fix))


def _is_config(value: object) -> bool:
    from nemo_launch.config.executor import ExecutorConfig  # an executor came with it; for status it is not needed

    return isinstance(value, ExecutorConfig)


def recipe(value: Any, where: str) -> None:
    """Something that says what to run.

    Raises:
        InputError: it is no recipe.
    """
    if isinstance(value, type):
        what, fix = f"{value.__name__} is a class", f"Make one: {value.__name__}(...)."
    elif isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        what, fix = f"{path!r} is a path, not a recipe", f"Write nemo_launch.Script({path!r})."
    elif hasattr(value, "lower") and hasattr(value, "name"):
        return
    elif callable(value):
        name = getattr(value, "__name__", "it")
        what, fix = f"{name} is a function, not a recipe", f"Write nemo_launch.Partial({name}, …)."
    else:
        what, fix = f"{shown(value)} is no recipe", "Give a nemo_launch.Partial(…) or a nemo_launch.Script(…)."
    raise InputError(Problem(what, where, fix))


def names(value: Any, where: str) -> tuple[str, ...]:
    """Names of tasks.

    Raises:
        InputError: a single text (whose letters would be taken for names), or something that is no text in it.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        raise InputError(Problem(f"{value!r} is a single text, not a list", where, f"Write {where}=[{value!r}]."))
    if not isinstance(value, Iterable):
        raise InputError(Problem(f"{shown(value)} is not a list of names", where))
    found = tuple(value)
    wrong = [one for one in found if not isinstance(one, str)]
    if wrong:
        fix = "Give what add() returned."
        raise InputError(Problem(f"{shown(wrong[0])} is not the name of a task", where, fix))
    return found


def seconds(value: object, where: str) -> None:
    """A number of seconds, or None.

    Raises:
        InputError: neither.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value != value):
        raise InputError(Problem(f"{shown(value)} is no number of seconds", where))


def function(value: object, where: str, instead: str = "") -> None:
    """Something that can be called, or None.

    Raises:
        InputError: neither.
    """
    if value is not None and not callable(value):
        raise InputError(Problem(f"{shown(value)} is no function", where, instead))


def encodable(text: str) -> bool:
    """Whether a text is made of characters and, escaped, of bytes; half a surrogate pair is neither."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def not_text(values: Sequence[tuple[str, object]]) -> list[Problem]:
    """What is neither text nor None, or holds half a surrogate pair; each value with its place."""
    found = []
    for where, value in values:
        if value is None:
            continue
        if not isinstance(value, str):
            found.append(Problem(f"{shown(value)} is not text", where))
        elif not encodable(value):
            found.append(Problem(f"{shown(value)} has a lone surrogate, which no file or argument can carry", where))
    return found
