"""Which code a folder holds, named by its content; nothing is written here."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar

from nemo_launch.errors import InputError, Problem
from nemo_launch.packaging.listing import MAX_FILE, Listing
from nemo_launch.task import Code

LINK = "120000"
"""git's mode of a symlink."""
_CHUNK = 2**20

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
    known = Known(listing.files)
    for path, mode in listing.files.copy().items():
        try:
            if mode == LINK:
                hashes[path] = hashlib.sha256(link_target(root, path, known)).digest()
            else:
                hashed = hashlib.sha256()
                for chunk in chunks(os.path.join(root, path)):
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
        digest=digest(files, hashes),
        files=files,
        commit=listing.commit,
        dirty=listing.dirty,
        notes=tuple(listing.notes),
    )


def inline(name: str, text: str) -> Code:
    """A script given as text."""
    content = text.encode("utf-8", "surrogateescape")
    files = ((name, "100755"),)
    named = digest(files, {name: hashlib.sha256(content).digest()})
    return Code(root="inline", digest=named, files=files, texts={name: content})


def texts(files: Mapping[str, bytes], notes: Sequence[str] = ()) -> Code:
    """Files that exist nowhere on disk: what a recipe in Python is made into."""
    named = tuple((path, "100644") for path in sorted(files))
    hashes = {path: hashlib.sha256(content).digest() for path, content in files.items()}
    return Code(root="recipe", digest=digest(named, hashes), files=named, texts=dict(files), notes=tuple(notes))


def alone(path: str) -> Code:
    """One file without its neighbours, under its own name.

    Raises:
        OSError: it cannot be read.
    """
    folder, name = os.path.split(path)
    mode = "100755" if os.stat(path).st_mode & stat.S_IXUSR else "100644"
    hashed = hashlib.sha256(b"".join(chunks(path))).digest()
    return Code(root=folder, digest=digest(((name, mode),), {name: hashed}), files=((name, mode),))


def digest(files: Sequence[tuple[str, str]], hashes: Mapping[str, bytes]) -> str:
    """sha256 over names, modes and contents; git's modes."""
    whole = hashlib.sha256()
    for path, mode in files:
        name = os.fsencode(path)
        whole.update(b"%s %d %s" % (mode.encode(), len(name), name) + hashes[path])
    return whole.hexdigest()


def chunks(path: str) -> Iterator[bytes]:
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


class Known:
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


def link_target(root: str, path: str, known: Known) -> bytes:
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
