"""A read-only copy of code, kept under the name of its content."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace

from nemo_launch import records
from nemo_launch.packaging.naming import LINK, Known, chunks, digest, link_target
from nemo_launch.packaging.provisional import TEMPORARY, TOKEN, Provisional, claim, remove
from nemo_launch.task import Code, Task

_ABANDONED = 24 * 3600.0


def store(code: Code, snapshots: str, added: Provisional | None = None) -> Code:
    """Keep a copy of the code as ``<snapshots>/<digest>``: whole or not at all, read-only; one that exists is reused.

    Args:
        code: as it was collected.
        snapshots: the folder of all snapshots.
        added: is told what is new, so that it can be taken back; without it, all is here to stay.

    Returns:
        The code as it was copied: when files changed after they were collected, its digest is another one.

    Raises:
        RecordError: it cannot be written (full disk, no permission); nothing is left behind.
    """
    named = os.path.join(snapshots, code.digest)
    if (added and added.holds(named)) or claim(named):
        return code
    temporary = ""
    try:
        temporary = _begin(code, snapshots)
        copied = _copy(code, temporary)
        _publish(code, temporary, os.path.join(snapshots, copied.digest), added)
        return copied
    except OSError as error:
        raise records.unwritable(snapshots, error) from error
    finally:
        if temporary:
            remove(temporary)


def stored(task: Task, snapshots: str, added: Provisional | None = None) -> Task:
    """Keep the code of a task; its paths follow when files changed since it was lowered.

    Raises:
        RecordError: see ``store``.
    """
    codes = tuple(store(code, snapshots, added) for code in task.code)
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


def _begin(code: Code, snapshots: str) -> str:
    """A new folder to copy into; a launch that takes its own back may remove the one above it in between."""
    import tempfile

    left = 5
    while True:
        os.makedirs(snapshots, exist_ok=True)
        try:
            _sweep(snapshots)
            return tempfile.mkdtemp(prefix=f".{code.digest[:12]}-", suffix=TEMPORARY, dir=snapshots)
        except FileNotFoundError:
            left -= 1
            if not left:
                raise


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
            hashes[path] = _write(target, iter([code.texts[path]]), 0o555 if mode == "100755" else 0o444)
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


def _publish(code: Code, temporary: str, final: str, added: Provisional | None) -> None:
    """Make the copy read-only and give it its name in one step."""
    for folder, _, _ in os.walk(temporary, topdown=False):
        original = os.path.join(code.root, os.path.relpath(folder, temporary))
        try:
            mode = os.stat(os.path.dirname(final) if code.texts else original).st_mode
        except OSError:
            mode = 0o700
        os.chmod(folder, mode & 0o555 | 0o500)
    while True:
        if added and added.holds(final):
            return
        if added:
            added.mark(final)
        try:
            os.rename(temporary, final)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        # another launcher stored the same code first; it may have taken it back by now
        if added.shared(final) if added else claim(final):
            return


def _sweep(snapshots: str) -> None:
    """Remove what launchers that were killed a day ago or earlier had begun."""
    with os.scandir(snapshots) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith((TEMPORARY, TOKEN)):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                        remove(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
