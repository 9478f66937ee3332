"""What a launch has added to the disk that nobody else relies on, so that a refused one can take it back.

Beside a snapshot that a launch has stored newly lies a token for as long as that launch may be refused. Whoever else
uses the snapshot removes the token first, and then looks whether the snapshot is there (``claim``). Whoever takes it
back moves it away first, and then removes the token: of two that try, one succeeds, and if that is the other, the
snapshot goes back to its place at once (a launch looks again when its record is written). A token that a killed
launcher leaves harms nothing, because only the process that wrote it would act on it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

TOKEN = ".new"
TEMPORARY = ".tmp"
"""Ending of what is being made, or removed, in the folder of the snapshots."""


def claim(snapshot: str) -> bool:
    """Whether it is there; if so, it stays."""
    with contextlib.suppress(OSError):  # no token, or a folder of another user
        os.unlink(_token(snapshot))
    return os.path.isdir(snapshot)


def remove(folder: str) -> None:
    """Remove a snapshot, or a part of one, although it is read-only."""
    import shutil

    if os.path.isdir(folder):
        for inside, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(inside, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


class Provisional:
    """The snapshots and folders that one launch makes.

    Args:
        folders: those that it may make, and with them the ones above.
    """

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._made = _missing(folders)
        self._own: dict[str, str] = {}

    def holds(self, snapshot: str) -> bool:
        """Whether this launch has stored it; a second task of the same launch is nobody else."""
        return snapshot in self._own and os.path.isdir(snapshot)

    def mark(self, snapshot: str) -> None:
        """It is about to get its name."""
        nonce = os.urandom(16).hex()
        try:
            os.symlink(nonce, _token(snapshot))  # made in one step with what it says, and needs no room
            self._own[snapshot] = nonce
        except OSError:
            claim(snapshot)  # another launch is storing the same: then neither takes it back

    def shared(self, snapshot: str) -> bool:
        """Another launch has stored it meanwhile; see ``claim``."""
        self._own.pop(snapshot, None)
        return claim(snapshot)

    def keep(self) -> None:
        """Something was submitted: all stays."""
        for snapshot in self._own:
            claim(snapshot)
        self._own.clear()

    def take_back(self) -> None:
        """Nothing was submitted: remove what was made and what nobody else uses."""
        for snapshot, nonce in self._own.items():
            with contextlib.suppress(OSError):
                _take_back(snapshot, nonce)
        self._own.clear()
        for folder in sorted(self._made, key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # only if it is empty


def _take_back(snapshot: str, nonce: str) -> None:
    token = _token(snapshot)
    if os.readlink(token) != nonce:
        return
    folder, name = os.path.split(snapshot)
    aside = os.path.join(folder, f".{name[:12]}-{os.urandom(4).hex()}{TEMPORARY}")
    os.rename(snapshot, aside)
    try:
        os.unlink(token)
    except OSError:
        try:
            os.rename(aside, snapshot)
            return
        except OSError:
            if not os.path.isdir(snapshot):
                return  # never the only copy
    remove(aside)


def _token(snapshot: str) -> str:
    folder, name = os.path.split(snapshot)
    return os.path.join(folder, f".{name}{TOKEN}")


def _missing(folders: Iterable[str]) -> list[str]:
    missing: dict[str, None] = {}
    for folder in folders:
        while folder not in missing and not os.path.lexists(folder):
            missing[folder] = None
            folder = os.path.dirname(folder)
    return list(missing)
