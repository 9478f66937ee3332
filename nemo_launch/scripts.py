"""A script file: where it is found, what runs it, and which code travels with it."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from nemo_launch import packaging
from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.errors import InputError, Problem
from nemo_launch.task import Code, Language

_PYTHON = re.compile(r"python(\d+(\.\d+)*)?\Z", re.ASCII)
_NAMES_READ = 2000


class How(NamedTuple):
    """What runs a script; see ``Task``."""

    language: Language
    interpreter: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a script runs from: a path below the first of its roots."""

    relative: str
    roots: tuple[str, ...]
    """Folders whose code it may import, as they are here; used where nothing is copied."""
    codes: tuple[Code, ...]
    """The copies of those folders; the first holds the script."""
    inner: tuple[tuple[int, str], ...] = ()
    """Further folders for imports: (number of the copy, path in it)."""

    def script(self, snapshots: str) -> str:
        """The script's path on the nodes."""
        folder = os.path.join(snapshots, self.codes[0].digest) if self.codes else self.roots[0]
        return os.path.join(folder, self.relative)

    def pythonpath(self, snapshots: str) -> tuple[str, ...]:
        """For imports from all roots."""
        copies = [os.path.join(snapshots, code.digest) for code in self.codes]
        return (*copies, *(os.path.join(copies[number], path) for number, path in self.inner), *self.roots)


# where ---------------------------------------------------------------------------------------------------------


def find(path: str, work_dir: str) -> str:
    """The script's absolute path: as it is, or below the work dir, the current directory or ``recipes/``.

    Raises:
        InputError: it is not there (with the places and near names), or is not a file that can be read.
    """
    if "\0" in path:
        raise InputError(Problem(f"{path!r} has a NUL byte in it", "script"))
    wanted = os.path.expanduser(path)
    bases = _bases(work_dir)
    places = list(dict.fromkeys(os.path.join(base, wanted) for base in bases))
    others = []
    for place in places:
        try:
            kind = os.stat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            others.append(f"{place} cannot be looked at ({error.strerror})")
            continue
        if stat.S_ISREG(kind):
            if os.access(place, os.R_OK):
                return _absolute(place)
            others.append(f"{place} may not be read")
        else:
            others.append(f"{place} is a directory" if stat.S_ISDIR(kind) else f"{place} is not a regular file")
    near = _near(wanted, bases, [place for place in places if os.path.isdir(place)])
    fix = "Check the path, or the work dir (-d) that it is relative to."
    if near:
        fix = f"Did you mean {' or '.join(near)}?"
    if others:
        raise InputError(Problem("; ".join(others), "script", fix))
    raise InputError(Problem(f"there is no {path}; looked for {', '.join(places)}", "script", fix))


def _bases(work_dir: str) -> list[str]:
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    bases = [work_dir, os.getcwd()]
    return list(dict.fromkeys([*bases, *(os.path.join(base, "recipes") for base in (*bases, ours))]))


def _absolute(path: str) -> str:
    if ".." in path.split("/"):  # behind a link, .. is not what the text says
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return os.path.abspath(path)


def _near(wanted: str, bases: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Names of scripts that were perhaps meant, as they could be typed."""
    import difflib

    names: dict[str, None] = {}
    for base in bases:
        names.update(dict.fromkeys(_scripts(base, 3 if base.endswith("/recipes") else 0)))
        below = os.path.dirname(wanted)
        names.update(dict.fromkeys(os.path.join(below, name) for name in _scripts(os.path.join(base, below), 0)))
    inside = [os.path.join(wanted, name) for folder in folders for name in _scripts(folder, 0)]
    same = [name for name in names if _stem(name) == _stem(wanted)]
    near = difflib.get_close_matches(wanted, names, 3, 0.6)
    stems = {_stem(name): name for name in names}
    like = [stems[stem] for stem in difflib.get_close_matches(_stem(wanted), stems, 2, 0.75)]
    return list(dict.fromkeys([*inside, *same, *near, *like]))[:3]


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


def _scripts(folder: str, depth: int) -> Iterator[str]:
    """Scripts below a folder, relative to it; not more than a screenful of reading."""
    start = folder
    folders = [(start, depth)]
    left = _NAMES_READ
    while folders and left > 0:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left <= 0:
                        return
                    if entry.name.endswith((".py", ".sh")):
                        yield os.path.relpath(entry.path, start)
                    elif depth and not entry.name.startswith((".", "__")) and entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, depth - 1))
        except OSError:
            continue


# what runs it --------------------------------------------------------------------------------------------------


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
        fix = f"Call it from a script: inline={os.path.basename(path)!r}, with its arguments."
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


# what travels with it ------------------------------------------------------------------------------------------


def place(path: str, config: ExecutorConfig, work_dir: str, leave_out: Sequence[str]) -> Place:
    """Where a script file runs from: inside the work dir with its neighbours, else with the folder that it belongs to.

    Raises:
        InputError: the code cannot be copied.
    """
    inside = _below(path, work_dir)
    if inside:
        codes = (packaging.collect(work_dir, leave_out, (*config.include, inside)),) if config.snapshot else ()
        return Place(inside, () if codes else (work_dir,), codes)
    path = os.path.realpath(path)  # Python looks for neighbours where the file really is
    own = _own_root(path)
    relative = os.path.relpath(path, own)
    if not config.snapshot:
        return Place(relative, (own, work_dir), ())
    try:
        code = packaging.collect(own, leave_out, (relative,))
    except InputError as error:  # too much in it, or it may not be listed
        note = f"{path} travels without its neighbours, because {error.problems[0].what}"
        code = replace(packaging.alone(path), notes=(note,))
        relative = os.path.basename(path)
    return _with_work_dir(relative, code, config, work_dir, leave_out)


def place_text(text: str, how: How, config: ExecutorConfig, work_dir: str, leave_out: Sequence[str]) -> Place:
    """Where a script given as text runs from: from a copy in any case, because it lies nowhere else."""
    if how.language == "shell":
        return Place("script.sh", (), (packaging.inline("script.sh", text),))
    code = packaging.inline("script.py", text)
    if not config.snapshot:
        return Place("script.py", (work_dir,), (code,))
    return _with_work_dir("script.py", code, config, work_dir, leave_out)


def with_editable(place: Place, config: ExecutorConfig) -> Place:
    """Packages installed with ``pip install -e``: imported from the copy if they are in it, else named in a note.

    Without this a project with its packages under ``src`` would be imported from where it is being edited.
    """
    elsewhere = config.python not in (None, sys.executable) or getattr(config, "container_image", None)
    if not place.codes or not config.snapshot or elsewhere:
        return place
    from nemo_launch.packaging import editable

    inner, outside = [], []
    tops = [os.path.realpath(code.root) if os.path.isabs(code.root) else "" for code in place.codes]
    for folder in editable.folders():
        real = os.path.realpath(folder)
        if real in tops:
            continue
        for number, (top, code) in enumerate(zip(tops, place.codes, strict=True)):
            relative = real[len(top) + 1 :]
            if top and real.startswith(top + "/") and any(f.startswith(relative + "/") for f, _ in code.files):
                inner.append((number, relative))
                break
        else:
            outside.append(folder)
    if outside:
        where = ", ".join(outside[:3]) + (f" and {len(outside) - 3} more" if len(outside) > 3 else "")
        note = f"imports from {where} (editable installs) are not copied: edits there reach jobs that wait"
        first = replace(place.codes[0], notes=(*place.codes[0].notes, note))
        place = place._replace(codes=(first, *place.codes[1:]))
    return place._replace(inner=tuple(inner))


def _with_work_dir(relative: str, code: Code, config: ExecutorConfig, work_dir: str, leave_out: Sequence[str]) -> Place:
    try:
        return Place(relative, (), (code, packaging.collect(work_dir, leave_out, config.include)))
    except packaging.TooMuch as error:
        if config.include:
            raise
        note = f"no copy of the work dir is taken, and nothing can be imported from it: {error.problems[0].what}"
        return Place(relative, (), (replace(code, notes=(*code.notes, note)),))


def _below(path: str, work_dir: str) -> str | None:
    """The path relative to the work dir if it really lies there, however either was spelled."""
    top = os.path.realpath(work_dir)
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    prefix = top.rstrip("/") + "/"
    if path.startswith(prefix) and os.path.realpath(path).startswith(prefix):
        return path[len(prefix) :]
    return None


def _own_root(path: str) -> str:
    """The nearest ``recipes`` folder above a script, else the folder that it lies in."""
    folder = os.path.dirname(path)
    above = folder
    while os.path.dirname(above) != above:
        if os.path.basename(above) == "recipes":
            return above
        above = os.path.dirname(above)
    return folder
