"""Fills a module with what travelled as text: constants, imports, functions, classes. Standard library, Python 3.8.

The module is a real file on the import path, so that pickle and spawned processes find what is in it. Its text keeps
the names of the files and the lines that it comes from: tracebacks and ``inspect.getsource`` show the user's own.
"""

from __future__ import annotations
import __future__

import json
import linecache
import os
import sys

from . import build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def load(namespace: Dict[str, Any]) -> None:
    """Carry out the steps that lie beside a module, in its namespace.

    Steps: ``["make", kind, …]`` a node of ``build``, ``["bind", name, value]``, ``["import", module]``,
    ``["define", file, line, text, future features]``.
    """
    with open(os.path.splitext(namespace["__file__"])[0] + ".json", encoding="utf-8") as file:
        body = json.load(file)
    if body["file"]:
        namespace["__file__"] = _placed(body["file"], body["below"])
    built: List[Any] = []
    for step, *rest in body["steps"]:
        if step == "make":
            built.append(build.make(rest, built))
        elif step == "bind":
            namespace[rest[0]] = build.value(rest[1], built)
        elif step == "import":
            build.resolve(rest[0] + ":", rest[1])
        else:
            define(namespace, *rest)


def define(namespace: Dict[str, Any], file: str, line: int, text: str, features: List[str]) -> None:
    """Run a definition as if it stood in its own file."""
    _remember(file, line, text)
    flags = 0
    try:
        for feature in features:
            flags |= getattr(__future__, feature).compiler_flag
        code = compile("\n" * (line - 1) + text, file, "exec", flags, True)
    except (SyntaxError, AttributeError) as error:
        what = "%s is for another version of Python (%s). %s, which is version %s, was asked; name another interpreter."
        raise build.NotHere(what % (file, error, sys.executable, sys.version.split()[0])) from None
    exec(code, namespace)


def _remember(file: str, line: int, text: str) -> None:
    """For tracebacks: the file may not be here, or be another one by now."""
    known: Any = linecache.cache.get(file)
    lines = list(known[2]) if known and known[1] is None else []
    wanted = text.splitlines(True)
    lines += ["\n"] * (line - 1 + len(wanted) - len(lines))
    lines[line - 1 : line - 1 + len(wanted)] = wanted
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)


def _placed(file: str, below: str) -> str:
    """Where the file is here, for functions that look for its neighbours: in the copy of the code, if it is in it."""
    if below:
        for folder in sys.path:
            path = os.path.join(folder, below)
            if os.path.exists(path):
                return path
    return file
