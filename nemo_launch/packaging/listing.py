"""Which files of a folder are its code: what git would commit, or a bounded walk where there is no git."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from nemo_launch.errors import InputError, Problem
from nemo_launch.packaging import git

MAX_FILE = 50 * 2**20
"""Bytes; a larger file is data, not code."""
MAX_FILES = 20_000
MAX_BYTES = 2**30
"""Limits for files that nobody has committed."""
IMAGES = (".sqsh", ".squashfs", ".sif", ".simg", ".img")
NEVER = frozenset(
    [".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"]
)
_SHOWN = 5
_WAYS_OUT = (
    "Choose a work dir with less in it (-d), list what is no code in a .gitignore of a git repository, "
    "or run without a copy of the code (--no-snapshot; snapshot=False in Python)."
)


class TooMuch(InputError):
    """More in the folder than can be the code of a run."""


class Listing:
    """Files of one root: ``files`` maps relative paths to git's modes; the rest is for people."""

    def __init__(self, root: str, leave_out: Iterable[str]) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.files: dict[str, str] = {}
        self.commit: str | None = None
        self.dirty = 0
        self.notes: list[str] = []
        self.skip = frozenset(self._skip(leave_out))
        self._heavy: list[tuple[str, int]] = []
        self._odd: dict[str, str] = {}
        self._kept_out: dict[str, int] = {}
        self._folders: dict[str, str | None] = {"": None}
        self._entries = self._bytes = 0

    def _skip(self, leave_out: Iterable[str]) -> Iterator[str]:
        """Folders below the root, relative to it. A home that is the root keeps its records in two of them."""
        for folder in leave_out:
            relative = os.path.relpath(os.path.realpath(folder), self.real)
            if relative == ".":
                yield from ("experiments", "snapshots")
            elif relative != ".." and not relative.startswith("../"):
                yield relative

    # what is there ---------------------------------------------------------------------------------------------

    def take(self, prefix: str = "") -> None:
        """Everything that is code under a folder of the root: by git if it can tell, else by walking."""
        folder = os.path.join(self.root, prefix) if prefix else self.root
        top = git.top_of(folder)
        if top is None:
            self._walk(prefix)
            return
        tree = git.tree(folder, top, [os.path.join(self.real, relative) for relative in self.skip])
        if isinstance(tree, str):
            self.notes.append(f"{folder}: {tree}; files that git ignores are part of the snapshot")
            self._walk(prefix)
            return
        if not (tree.tracked or tree.untracked or tree.nested):
            # A folder that an outer repository ignores, or an empty one.
            self._walk(prefix)
            return
        if not prefix:
            self.commit = tree.commit
        self.notes += tree.notes
        start = f"{prefix}/" if prefix else ""
        names = [*tree.tracked, *tree.untracked]
        for name in names:
            if name.endswith("/pyvenv.cfg"):
                self._folders[start + os.path.dirname(name)] = ""
        self.dirty += tree.dirty
        for name in tree.tracked:
            kept_out = self._why_not(start + name)
            if kept_out is None:
                self._add(start + name)
            elif kept_out:
                self._kept_out[kept_out] = self._kept_out.get(kept_out, 0) + 1
        for name in tree.untracked:
            if self._why_not(start + name) is None:
                self._add(start + name, counted=True)
            else:
                self.dirty -= 1
        for name in tree.nested:
            if self._why_not(start + name) is not None:
                continue
            if os.path.lexists(os.path.join(self.root, start + name, ".git")):
                self.take(start + name)
            else:
                self.notes.append(f"submodule {start + name} is not checked out and so not part of the snapshot")

    def include(self, paths: Iterable[str]) -> None:
        """Bring back what a rule leaves out: files or whole folders, relative to the root."""
        problems = []
        for path in paths:
            full = os.path.normpath(os.path.join(self.root, path))
            if full != self.root:  # the folder may be spelled through links
                full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
            relative = "." if full == self.root else os.path.relpath(full, self.real)
            if relative == ".." or relative.startswith("../"):
                fix = "Name a path that lies in it, or mount the other place."
                problems.append(Problem(f"{path!r} is, or leads, outside {self.root}", "include", fix))
            elif not os.path.lexists(full):
                problems.append(Problem(f"{path!r} is not there (looked for {full})", "include"))
            elif os.path.isdir(full) and not os.path.islink(full):
                self._walk("" if relative == "." else relative, everything=True)
            else:
                self._add(relative, wanted=True)
        if problems:
            raise InputError(problems)

    def finish(self) -> None:
        """Settle contradictions and write the notes."""
        links = {path for path, mode in self.files.items() if mode == "120000"}
        if links:  # a tracked folder that was replaced by a link: git still lists what was in it
            for path in [path for path in self.files if any(above in links for above in _above(path))]:
                del self.files[path]
        heavy = [(path, size) for path, size in self._heavy if path not in self.files]
        if heavy:
            self.notes.append(
                "left out, as container images or over 50 MB: "
                + _some(f"{path} ({_size(size)})" for path, size in sorted(heavy))
                + "; --include PATH takes one along"
            )
        for folder, count in self._kept_out.items():
            self.notes.append(f"left out: {count} committed file(s) under {folder}/; --include PATH takes one along")
        if self._odd:
            self.notes.append("skipped: " + _some(f"{path} ({what})" for path, what in sorted(self._odd.items())))

    def skipped(self, path: str, what: str) -> None:
        """A file turned out not to be readable."""
        self.files.pop(path, None)
        self._odd[path] = what

    # one by one ------------------------------------------------------------------------------------------------

    def _why_not(self, path: str) -> str | None:
        """None: take it. Else the folder of ``skip`` that it lies in, or "" for one that never holds code."""
        folder, name = os.path.split(path)
        if path in self.skip:
            return path
        if name in NEVER:
            return ""
        if folder not in self._folders:
            self._folders[folder] = self._why_not(folder)
        return self._folders[folder]

    def _add(self, path: str, *, counted: bool = False, wanted: bool = False) -> None:
        try:
            facts = os.lstat(os.path.join(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return  # deleted in the work tree
        except OSError as error:
            self._odd[path] = error.strerror or "unreadable"
            return
        kind = facts.st_mode
        size = 0
        if stat.S_ISLNK(kind):
            self.files[path] = "120000"
        elif stat.S_ISREG(kind):
            if not wanted and (facts.st_size > MAX_FILE or path.lower().endswith(IMAGES)):
                self._heavy.append((path, facts.st_size))
            else:
                self.files[path] = "100755" if kind & stat.S_IXUSR else "100644"
                size = facts.st_size
        elif not stat.S_ISDIR(kind):
            self._odd[path] = "socket" if stat.S_ISSOCK(kind) else "pipe" if stat.S_ISFIFO(kind) else "device"
        if counted:
            self._count(size)

    def _count(self, size: int) -> None:
        self._entries += 1
        self._bytes += size
        if self._entries > MAX_FILES or self._bytes > MAX_BYTES:
            much = f"more than {MAX_FILES:,} files" if self._entries > MAX_FILES else f"over {_size(MAX_BYTES)}"
            kind = " that are not committed" if git.top_of(self.root) else ""
            raise TooMuch(Problem(f"{self.root} holds {much}{kind}, too much to copy for a run", "work_dir", _WAYS_OUT))

    def _walk(self, start: str, everything: bool = False) -> None:
        folders = [start]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(os.path.join(self.root, folder) if folder else self.root) as entries:
                    inside = []
                    for entry in entries:  # counted while it is read: a folder can be endless
                        inside.append((entry.name, entry.is_dir(follow_symlinks=False)))
                        if len(inside) > MAX_FILES:
                            self._entries = MAX_FILES
                            self._count(0)
            except OSError as error:
                self._odd[folder or self.root] = error.strerror or "unreadable"
                continue
            names = {name for name, _ in inside}
            if folder != start and not everything:
                if "pyvenv.cfg" in names:
                    continue
                if ".git" in names:
                    self.take(folder)
                    continue
            for name, is_folder in inside:
                path = f"{folder}/{name}" if folder else name
                if path in self.skip or (name in (".git", "__pycache__") if everything else name in NEVER):
                    continue
                if is_folder:
                    self._count(0)
                    folders.append(path)
                else:
                    self._add(path, counted=not everything, wanted=everything)
                    if everything:
                        self._count(0)


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        yield path


def _size(count: int) -> str:
    for exponent, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1024**exponent:
            return f"{count / 1024**exponent:.1f} {unit}"
    return f"{count} bytes"


def _some(words: Iterable[str]) -> str:
    found: Sequence[str] = list(words)
    more = len(found) - _SHOWN
    return ", ".join(found[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
