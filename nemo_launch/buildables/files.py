"""Recipe files: Python files whose ``recipe()`` returns what to run. What is one is told without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from nemo_launch.errors import InputError, Problem

_IMPORTS_OURS = re.compile(rb"^[ \t]*(import|from)[ \t]+(nemo_launch|nemo_run|fiddle)\b", re.MULTILINE)


def is_recipe_file(path: str) -> bool:
    """Whether a Python file defines, at its top level, a ``recipe()`` that can be called without arguments.

    Raises:
        InputError: its ``recipe()`` is an async function; or it imports this package and has a ``recipe`` of another
            kind: run as a script it would fail in the job, or do nothing and succeed.
    """
    if not path.endswith(".py"):
        return False
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError:
        return False  # whoever runs it says why
    if b"recipe" not in source:  # parsing a long script takes a while
        return False
    ours = bool(_IMPORTS_OURS.search(source)) and b"Experiment" not in source  # with one it launches by itself
    if not ours and b"def recipe" not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        if ours and isinstance(error, SyntaxError) and re.search(rb"^def recipe\b", source, re.MULTILINE):
            raise InputError(Problem(f"it is no Python: {error.msg}", f"{path}:{error.lineno}")) from None
        return False  # a script for another Python, perhaps; the job says what is wrong
    for statement in reversed(tree.body):  # the last definition is the one that counts
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == "recipe":
            if not _callable_without_arguments(statement.args):
                if ours:
                    needed = ", ".join(_needed(statement.args))
                    raise InputError(
                        Problem(f"recipe() needs arguments: {needed}", f"{path}:{statement.lineno}", AS_DEFAULTS)
                    )
                return False
            if isinstance(statement, ast.AsyncFunctionDef):
                raise InputError(Problem("recipe() is an async function", f"{path}:{statement.lineno}", AS_SCRIPT))
            return True
    if ours and (line := next(_bound(tree.body), None)):
        what = "recipe is no function that is defined at the top level with def recipe():"
        raise InputError(Problem(what, f"{path}:{line}", AS_SCRIPT))
    return False


AS_DEFAULTS = (
    "Give them defaults, and set fields of what it returns with NAME=VALUE; or, if this is no recipe file, launch it "
    "as a plain script: --entrypoint python."
)
AS_SCRIPT = "Write def recipe():, or, if this is no recipe file, launch it as a plain script: --entrypoint python."


def _callable_without_arguments(arguments: ast.arguments) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return positional <= len(arguments.defaults) and None not in arguments.kw_defaults


def _needed(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    by_name = [a for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    return [one.arg for one in (*positional[: len(positional) - len(arguments.defaults)], *by_name)]


def _bound(statements: Sequence[ast.stmt]) -> Iterator[int]:
    """The lines on which a module's ``recipe`` is anything but a function of its top level."""
    for one in statements:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if one.name == "recipe":
                yield one.lineno
        elif isinstance(one, (ast.Import, ast.ImportFrom)):
            if any((alias.asname or alias.name) == "recipe" for alias in one.names):
                yield one.lineno
        elif isinstance(one, (ast.Assign, ast.AnnAssign)):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            if any(isinstance(target, ast.Name) and target.id == "recipe" for target in targets):
                yield one.lineno
        elif isinstance(one, (ast.If, ast.Try, ast.With)) and not _is_guard(one):
            blocks = [getattr(one, name, []) for name in ("body", "orelse", "finalbody")]
            blocks += [handler.body for handler in getattr(one, "handlers", [])]
            for block in blocks:
                yield from _bound(block)


def _is_guard(one: ast.stmt) -> bool:
    """Whether it is ``if __name__ == …``: what stands there is a script's own."""
    return isinstance(one, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(one.test))
