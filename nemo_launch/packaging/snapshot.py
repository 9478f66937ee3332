"""A read-only copy of code, kept under the name of its content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace

from nemo_launch import records
from nemo_launch.packaging.naming import LINK, Known, chunks, digest, link_target
from nemo_launch.task import Code, Task

_UNFINISHED = ".tmp"
_ABANDONED = 24 * 3600.0


def store(code: Code, snapshots: str) -> Code:
    """Keep a copy of the code as ``<snapshots>/<digest>``: whole or not at all, read-only; one that exists is reused.

    Returns:
        The code as it was copied: when files changed after they were collected, its digest is another one.

    Raises:
        RecordError: it cannot be written (full disk, no permission); nothing is left behind.
    """
    if os.path.isdir(os.path.join(snapshots, code.digest)):
        return code
    import tempfile

    temporary = ""
    try:
        os.makedirs(snapshots, exist_ok=True)
        _sweep(snapshots)
        temporary = tempfile.mkdtemp(prefix=f".{code.digest[:12]}-", suffix=_UNFINISHED, dir=snapshots)
        copied = _copy(code, temporary)
        _publish(code, temporary, os.path.join(snapshots, copied.digest))
        return copied
    except OSError as error:
        raise records.unwritable(snapshots, error) from error
    finally:
        if temporary:
            _remove(temporary)


def stored(task: Task, snapshots: str) -> Task:
    """Keep the code of a task; its paths follow when files changed since it was lowered.

    Raises:
        RecordError: see ``store``.
    """
    codes = tuple(store(code, snapshots) for code in task.code)
    moved = {
        os.path.join(snapshots, old.digest): os.path.join(snapshots, new.digest)
        for old, new in zip(task.code, codes, strict=True)
        if old.digest != new.digest
    }
    if not moved:
        return task

    def follow(path: str) -> str:
        for old, new in moved.items():
            if path == old or path.startswith(old + "/"):
                return new + path[len(old) :]
        return path

    program, *args = task.argv
    return replace(
        task, code=codes, argv=(follow(program), *args), pythonpath=tuple(follow(path) for path in task.pythonpath)
    )


def _copy(code: Code, to: str) -> Code:
    """Copy into an empty folder; what comes back is named by what was really copied."""
    files: list[tuple[str, str]] = []
    hashes: dict[str, bytes] = {}
    made = {""}
    known = Known(dict(code.files))
    for path, mode in code.files:
        folder = os.path.dirname(path)
        if folder not in made:
            os.makedirs(os.path.join(to, folder), mode=0o700, exist_ok=True)
            made.add(folder)
        target = os.path.join(to, path)
        if path in code.texts:
            hashes[path] = _write(target, iter([code.texts[path]]), 0o555)
        else:
            try:
                if mode == LINK:
                    link = link_target(code.root, path, known)
                else:
                    source = os.path.join(code.root, path)
                    facts = os.lstat(source)
                    contents = chunks(source)
                    first = next(contents, b"")
            except OSError:
                continue  # gone, or no longer readable
            if mode == LINK:
                os.symlink(link, os.fsencode(target))
                hashes[path] = hashlib.sha256(link).digest()
            else:
                mode = "100755" if facts.st_mode & stat.S_IXUSR else "100644"
                # Nobody gets to read more than before.
                hashes[path] = _write(target, _joined(first, contents), facts.st_mode & 0o555 | 0o400)
        files.append((path, mode))
    return replace(code, files=tuple(files), digest=digest(files, hashes))


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _write(path: str, chunks: Iterator[bytes], mode: int) -> bytes:
    hashed = hashlib.sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        for chunk in chunks:
            hashed.update(chunk)
            while chunk:
                chunk = chunk[os.write(descriptor, chunk) :]
    finally:
        os.close(descriptor)  # a full disk behind NFS is reported here
    return hashed.digest()


def _publish(code: Code, temporary: str, final: str) -> None:
    """Make the copy read-only and give it its name in one step."""
    for folder, _, _ in os.walk(temporary, topdown=False):
        original = os.path.join(code.root, os.path.relpath(folder, temporary))
        try:
            mode = os.stat(os.path.dirname(final) if code.texts else original).st_mode
        except OSError:
            mode = 0o700
        os.chmod(folder, mode & 0o555 | 0o500)
    try:
        os.rename(temporary, final)
    except OSError:
        if not os.path.isdir(final):  # else another launcher stored the same code first
            raise


def _sweep(snapshots: str) -> None:
    """Remove what launchers that were killed a day ago or earlier had begun."""
    with os.scandir(snapshots) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(_UNFINISHED):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat().st_mtime > _ABANDONED:
                        _remove(entry.path)


def _remove(temporary: str) -> None:
    import shutil

    if os.path.isdir(temporary):
        for folder, _, _ in os.walk(temporary):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(temporary, ignore_errors=True)
