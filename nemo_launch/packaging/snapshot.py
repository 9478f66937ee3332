"""Name code by its content, and keep a read-only copy of it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace

from nemo_launch import records
from nemo_launch.errors import InputError, Problem
from nemo_launch.packaging.listing import MAX_FILE, Listing
from nemo_launch.task import Code, Task

_CHUNK = 2**20
_LINK = "120000"
_UNFINISHED = ".tmp"
_ABANDONED = 24 * 3600.0


_shared: ContextVar[dict[tuple[object, ...], Code] | None] = ContextVar("_shared", default=None)


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """While this lasts, equal questions to ``collect`` are answered once: the tasks of one request see one tree."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def collect(root: str, leave_out: Sequence[str] = (), include: Sequence[str] = ()) -> Code:
    """The code under a folder, named by its content; reads, writes nothing.

    Args:
        root: absolute. In a git work tree (or a subfolder of one): committed, modified and untracked files, without
            the ignored ones; elsewhere: every file, up to a limit.
        leave_out: absolute folders that are never code (experiments, logs, caches, data). The root itself stands for
            its ``experiments`` and ``snapshots``.
        include: paths (relative to the root) to take along although a rule leaves them out.

    Raises:
        InputError: no such folder, too much in it, or an ``include`` that is not there.
    """
    memory, asked = _shared.get(), (root, tuple(leave_out), tuple(include))
    if memory is None:
        return _collect(*asked)
    if asked not in memory:
        memory[asked] = _collect(*asked)
    return memory[asked]


def _collect(root: str, leave_out: Sequence[str], include: Sequence[str]) -> Code:
    if "\n" in root:
        raise InputError(Problem(f"{root!r} has a newline in it", "work_dir", "Choose another directory."))
    try:
        os.scandir(root).close()
    except OSError as error:
        raise InputError(Problem(f"cannot read {root}: {error.strerror}", "work_dir")) from error
    listing = Listing(root, leave_out)
    listing.take()
    listing.include(include)
    hashes: dict[str, bytes] = {}
    known = _Known(listing.files)
    for path, mode in listing.files.copy().items():
        try:
            if mode == _LINK:
                hashes[path] = hashlib.sha256(_target(root, path, known)).digest()
            else:
                hashed = hashlib.sha256()
                for chunk in _chunks(os.path.join(root, path)):
                    hashed.update(chunk)
                hashes[path] = hashed.digest()
        except FileNotFoundError:
            del listing.files[path]  # gone since it was listed
        except OSError as error:
            listing.skipped(path, error.strerror or "unreadable")
    listing.finish()
    files = tuple(sorted(listing.files.items()))
    return Code(
        root=root,
        digest=_digest(files, hashes),
        files=files,
        commit=listing.commit,
        dirty=listing.dirty,
        notes=tuple(listing.notes),
    )


def inline(name: str, text: str) -> Code:
    """A script given as text."""
    content = text.encode("utf-8", "surrogateescape")
    files = ((name, "100755"),)
    digest = _digest(files, {name: hashlib.sha256(content).digest()})
    return Code(root="inline", digest=digest, files=files, texts={name: content})


def alone(path: str) -> Code:
    """One file without its neighbours, under its own name.

    Raises:
        OSError: it cannot be read.
    """
    folder, name = os.path.split(path)
    mode = "100755" if os.stat(path).st_mode & stat.S_IXUSR else "100644"
    hashed = hashlib.sha256(b"".join(_chunks(path))).digest()
    return Code(root=folder, digest=_digest(((name, mode),), {name: hashed}), files=((name, mode),))


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


def _digest(files: Sequence[tuple[str, str]], hashes: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, mode in files:
        name = os.fsencode(path)
        whole.update(b"%s %d %s" % (mode.encode(), len(name), name) + hashes[path])
    return whole.hexdigest()


def _chunks(path: str) -> Iterator[bytes]:
    """Contents of a regular file; a pipe that took its place since must not block us, a link not lead us away."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise FileNotFoundError(errno.ENOENT, "no longer a file", path)
        # A log that grows faster than we read would have no end, nor have some files of /proc, whose size is 0.
        left = facts.st_size or MAX_FILE
        while left and (chunk := os.read(descriptor, min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk
    finally:
        os.close(descriptor)


class _Known:
    """Paths and folders of a snapshot, worked out only when there are links."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._folders: set[str] | None = None

    def __contains__(self, path: str) -> bool:
        if self._folders is None:
            self._folders = {"."}
            for name in self._files:
                while (name := os.path.dirname(name)) and name not in self._folders:
                    self._folders.add(name)
        return path in self._files or path in self._folders


def _target(root: str, path: str, known: _Known) -> bytes:
    """Where a link of the snapshot points: where the original does.

    A relative target that is not in the snapshot (it leaves the root, or was left out) would dangle there and is made
    absolute.
    """
    target = os.readlink(os.path.join(root, path))
    if not os.path.isabs(target):
        folder = os.path.dirname(path)
        inside = os.path.normpath(os.path.join(folder, target))
        original = os.path.join(root, folder, target)
        if inside == ".." or inside.startswith("../") or (inside not in known and os.path.exists(original)):
            target = os.path.normpath(original)
    return os.fsencode(target)


def _copy(code: Code, to: str) -> Code:
    """Copy into an empty folder; what comes back is named by what was really copied."""
    files: list[tuple[str, str]] = []
    hashes: dict[str, bytes] = {}
    made = {""}
    known = _Known(dict(code.files))
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
                if mode == _LINK:
                    link = _target(code.root, path, known)
                else:
                    source = os.path.join(code.root, path)
                    facts = os.lstat(source)
                    contents = _chunks(source)
                    first = next(contents, b"")
            except OSError:
                continue  # gone, or no longer readable
            if mode == _LINK:
                os.symlink(link, os.fsencode(target))
                hashes[path] = hashlib.sha256(link).digest()
            else:
                mode = "100755" if facts.st_mode & stat.S_IXUSR else "100644"
                # Nobody gets to read more than before.
                hashes[path] = _write(target, _joined(first, contents), facts.st_mode & 0o555 | 0o400)
        files.append((path, mode))
    return replace(code, files=tuple(files), digest=_digest(files, hashes))


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
