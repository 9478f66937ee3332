"""Where a script file is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from nemo_launch import here
from nemo_launch.errors import InputError, Problem

_NAMES_READ = 2000


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
    tried = {os.path.normpath(place) for place in places}
    near = [
        name
        for name in _near(wanted, bases, [place for place in places if os.path.isdir(place)])
        if not any(os.path.normpath(os.path.join(base, name)) in tried for base in bases)
    ]
    fix = "Check the path, or the work dir (-d) that it is relative to."
    if near:
        fix = f"Did you mean {' or '.join(near)}?"
    if others:
        if not near:
            fix = "Name a file that you may read."
        raise InputError(Problem("; ".join(others), "script", fix))
    raise InputError(Problem(f"there is no {path}; looked for {', '.join(places)}", "script", fix))


def _bases(work_dir: str) -> list[str]:
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    current = here.known()
    bases = [work_dir, current] if current else [work_dir]
    return list(dict.fromkeys([*bases, *(os.path.join(base, "recipes") for base in (*bases, ours))]))


def _absolute(path: str) -> str:
    if ".." in path.split("/"):  # behind a link, .. is not what the text says
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return here.absolute(path)


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
