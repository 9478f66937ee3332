"""Which files match many patterns: each folder is listed once, however many patterns ask for its files."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator

_ESCAPED = re.compile(r"\[([*?[])\]")


def matching(patterns: Iterable[str]) -> Iterator[str]:
    """Paths that match any of the glob patterns; one without a wildcard is given back as it is, there or not.

    ``glob`` lists a folder anew and compiles a regular expression for each pattern: for hundreds of tasks that takes
    longer than asking the scheduler. Here ``*`` once in a name, which is all that records need, costs neither.
    """
    listings: dict[str, list[str]] = {}
    folders: dict[str, list[str]] = {}
    for pattern in patterns:
        yield from _expand(pattern, listings, folders)


def _expand(pattern: str, listings: dict[str, list[str]], folders: dict[str, list[str]]) -> list[str]:
    folder, slash, name = pattern.rpartition("/")
    if not slash:  # nothing above it to list
        return glob.glob(pattern) if _literal(pattern) is None else [_literal(pattern) or ""]
    if not folder:
        parents = ["/"]
    elif folder in folders:
        parents = folders[folder]
    else:
        plain = _literal(folder)
        parents = folders[folder] = [plain] if plain is not None else _expand(folder, listings, folders)
    last = _literal(name)
    if last is not None:
        return [_inside(parent, last) for parent in parents]
    return [_inside(parent, entry) for parent in parents for entry in _among(_listing(parent, listings), name)]


def _inside(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder != "/" else f"/{name}"


def escaped(path: str) -> str:
    """``glob.escape``, quick where there is nothing to escape."""
    return glob.escape(path) if _wild(path) else path


def _wild(text: str) -> bool:
    return "*" in text or "?" in text or "[" in text


def _literal(pattern: str) -> str | None:
    """What a pattern without wildcards stands for."""
    if not _wild(pattern):
        return pattern
    if "[" not in pattern:  # nothing in it is escaped
        return None
    plain = _ESCAPED.sub(r"\1", pattern)
    return plain if glob.escape(plain) == pattern else None


def _among(names: Iterable[str], pattern: str) -> list[str]:
    before, star, after = pattern.partition("*")
    first, last = _literal(before), _literal(after)
    if star and first is not None and last is not None:
        size = len(first) + len(last)
        found = [n for n in names if len(n) >= size and n.startswith(first) and n.endswith(last)]
    else:
        found = fnmatch.filter(names, pattern)
    return found if pattern.startswith(".") else [name for name in found if not name.startswith(".")]


def _listing(folder: str, listings: dict[str, list[str]]) -> list[str]:
    if folder not in listings:
        try:
            listings[folder] = os.listdir(folder)
        except OSError:
            listings[folder] = []
    return listings[folder]
