"""Recipe files: Python files whose ``recipe()`` returns what to run. What is one is told without running it."""

from __future__ import annotations

import ast

from nemo_launch.errors import InputError, Problem


def is_recipe_file(path: str) -> bool:
    """Whether a Python file defines, at its top level, a ``recipe()`` that can be called without arguments.

    Raises:
        InputError: its ``recipe()`` is an async function.
    """
    if not path.endswith(".py"):
        return False
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError:
        return False  # whoever runs it says why
    if b"def recipe" not in source:  # parsing a long script takes a while
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False  # a script for another Python, perhaps; the job says what is wrong
    for statement in reversed(tree.body):  # the last definition is the one that counts
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == "recipe":
            if not _callable_without_arguments(statement.args):
                return False
            if isinstance(statement, ast.AsyncFunctionDef):
                raise InputError(Problem("recipe() is an async function", f"{path}:{statement.lineno}", AS_SCRIPT))
            return True
    return False


AS_SCRIPT = "Write def recipe():, or, if this is no recipe file, launch it as a plain script: --entrypoint python."


def _callable_without_arguments(arguments: ast.arguments) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return positional <= len(arguments.defaults) and None not in arguments.kw_defaults
