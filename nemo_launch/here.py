"""The current directory, which may have been removed, and paths that are relative to it."""

from __future__ import annotations

import os

from nemo_launch.errors import InputError, Problem


def directory() -> str:
    """The current directory.

    Raises:
        InputError: there is none any more.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        what = "it has been removed"
    except OSError as error:
        what = f"it cannot be told ({error.strerror})"
    fix = "Change to one that exists, or give whole paths: -d (work_dir) and all others."
    raise InputError(Problem(what, "current directory", fix))


def known() -> str | None:
    """The current directory, or None where there is none any more."""
    try:
        return directory()
    except InputError:
        return None


def absolute(path: str | os.PathLike[str]) -> str:
    """A path from / on, with ``~`` and ``..`` resolved as text; of an absolute one the current directory is not asked.

    Raises:
        InputError: it is relative, and there is no current directory any more.
    """
    path = os.path.expanduser(os.fspath(path))
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(directory(), path))
