"""What runs a script: Python, a shell, or what its first line says."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from nemo_launch.errors import InputError, Problem
from nemo_launch.task import Language

_PYTHON = re.compile(r"python(\d+(\.\d+)*)?\Z", re.ASCII)


class How(NamedTuple):
    """What runs a script; see ``Task``."""

    language: Language
    interpreter: tuple[str, ...] = ()


def how(path: str, entrypoint: Sequence[str]) -> How:
    """What runs a script file: the entrypoint, else its suffix, else its shebang, else a shell.

    Raises:
        InputError: it is no script.
    """
    try:
        with open(path, "rb") as file:
            first = file.readline(4096)
    except OSError as error:
        raise InputError(Problem(f"cannot read {path}: {error.strerror}", "script")) from error
    if first.startswith(b"\x7fELF"):
        fix = "Call it, with its arguments, from a shell script."
        raise InputError(Problem(f"{path} is a program, not a script", "script", fix))
    if not entrypoint and path.endswith(".py"):
        return How("python")
    return how_text(os.fsdecode(first), entrypoint)


def how_text(text: str, entrypoint: Sequence[str]) -> How:
    """What runs a script given as text."""
    if entrypoint:
        words = tuple(entrypoint)
        if words[0] in ("python", "python3"):
            return How("python", words if len(words) > 1 else ())
        # A certain Python, or one with options, is kept: the executor's own would be another.
        return How("python" if _PYTHON.match(os.path.basename(words[0])) else "shell", words)
    line = text.split("\n", 1)[0].rstrip("\r")
    if not line.startswith("#!"):
        return How("shell")
    # The kernel's rule: the interpreter, and all the rest of the line as one argument.
    words = tuple(line[2:].strip(" \t").split(None, 1))
    program = [word for word in line[2:].split() if not word.startswith("-") and "=" not in word]
    if program and os.path.basename(program[0]) == "env":
        del program[0]
    if program and _PYTHON.match(os.path.basename(program[0])):
        return How("python")
    return How("shell", words)
