"""Importing a recipe file, only to call its ``recipe()``: afterwards this process is as it was before."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import random
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from nemo_launch.errors import InputError, Problem

MARK = "__nemo_launch_recipe__"
"""A module with this name in it exists only here: what it defines travels by source."""


@contextlib.contextmanager
def recipe_of(path: str, roots: Sequence[str]) -> Iterator[Any]:
    """What a recipe file's ``recipe()`` returns; while this lasts its module can be found in ``sys.modules``.

    Args:
        path: absolute.
        roots: further folders that it may import from, as on the nodes.

    Raises:
        InputError: it cannot be imported, or its ``recipe()`` fails.
    """
    with _as_it_was([os.path.dirname(path), *roots]):
        yield _called(path)


def _called(path: str) -> Any:
    name = os.path.splitext(os.path.basename(path))[0]
    while name in sys.modules or not name.isidentifier():
        name = "recipe_" + "".join(c if c.isalnum() else "_" for c in name)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(Problem(f"{path} cannot be imported", "script"))
    module = importlib.util.module_from_spec(spec)
    setattr(module, MARK, path)
    sys.modules[name] = module
    calling = False
    try:
        with contextlib.redirect_stdout(sys.stderr), _descriptor_too():  # standard output is for what was asked
            spec.loader.exec_module(module)
            calling = True
            return module.recipe()
    except KeyboardInterrupt:
        raise
    except InputError as error:
        where = _line(error, path)
        told = [p._replace(where=f"{where}: {p.where}" if p.where else where) for p in error.problems]
        raise InputError(told) from error
    except BaseException as error:  # SystemExit, too: a recipe file ends no launcher
        raise InputError(_failed(error, path, module, calling)) from error


@contextlib.contextmanager
def _descriptor_too() -> Iterator[None]:
    """What programs that a recipe file calls print on standard output goes to standard error, too."""
    try:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.fstat(2)
        kept = os.dup(1)
    except (OSError, ValueError):  # one of them is closed
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _failed(error: BaseException, path: str, module: ModuleType, calling: bool) -> Problem:
    where = _line(error, path)
    if isinstance(error, ModuleNotFoundError) and error.name:
        if calling:
            what = f"recipe() imports {error.name}, which {sys.executable} does not have"
            fix = "Install it where you launch, or import it inside the function that runs in the job."
            return Problem(what, where, fix)
        what = f"{error.name} is imported, which {sys.executable} does not have"
        fix = (
            "Import it inside the function that needs it, or launch the file as a plain script: --entrypoint python "
            "(Script(…, entrypoint='python') in Python)."
        )
        return Problem(what, where, fix)
    kind = type(error).__name__
    text = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        where, text = f"{error.filename}:{error.lineno}", str(error.msg)
    what = (
        f"{'recipe() failed' if calling else 'the recipe file cannot be imported'}: {kind}{': ' + text if text else ''}"
    )
    return Problem(what, where, "--debug shows the whole traceback.")


def _line(error: BaseException, path: str) -> str:
    """``FILE:LINE`` where it happened: the last line of the recipe file, or of another one that it brings along."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    where = path
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path or (
            where != path and not _foreign(frame.filename) and not frame.filename.startswith(ours)
        ):
            where = f"{frame.filename}:{frame.lineno}"
    return where


def _foreign(path: str) -> bool:
    """Whether a file is of Python itself or of a package: not where a user's mistake is."""
    return path.startswith("<") or "site-packages" in path or path.startswith(os.path.dirname(os.__file__) + os.sep)


@contextlib.contextmanager
def _as_it_was(folders: Sequence[str]) -> Iterator[None]:
    """Put back what importing a file may change. Installed modules stay: many cannot be imported twice."""
    root = logging.getLogger()
    before = (sys.path[:], sys.argv[:], dict(os.environ), random.getstate(), root.handlers[:], root.level)
    modules, bytecode, folder = dict(sys.modules), sys.dont_write_bytecode, _cwd()
    numbers = [(module, _state(module)) for name in ("numpy", "torch") if (module := sys.modules.get(name))]
    sys.path[:0] = list(dict.fromkeys(folders))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = before[0], before[1]
        if dict(os.environ) != before[2]:
            os.environ.clear()
            os.environ.update(before[2])
        random.setstate(before[3])
        root.handlers[:] = before[4]
        root.setLevel(before[5])
        sys.dont_write_bytecode = bytecode
        if folder is not None and folder != _cwd():
            os.chdir(folder)
        for name, module in list(sys.modules.items()):
            if name not in modules and (hasattr(module, MARK) or _lies_in(module, folders)):
                del sys.modules[name]
        for name, module in modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
        for module, state in numbers:
            _set_state(module, state)


def _lies_in(module: ModuleType, folders: Sequence[str]) -> bool:
    file = getattr(module, "__file__", None)
    places = [file] if isinstance(file, str) else list(getattr(module, "__path__", ()))
    tops = tuple(os.path.join(folder, "") for folder in folders)
    return any((place + os.sep).startswith(tops) and not _foreign(place) for place in places)


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _state(module: Any) -> Any:
    return module.random.get_rng_state() if module.__name__ == "torch" else module.random.get_state()


def _set_state(module: Any, state: Any) -> None:
    if module.__name__ == "torch":
        module.random.set_rng_state(state)
    else:
        module.random.set_state(state)
