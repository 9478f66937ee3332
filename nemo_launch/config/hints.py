"""Nearest known names, for whoever mistyped one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` most likely stands for; case and ``-`` against ``_`` count as equal."""
    import difflib

    names = {_folded(name): name for name in known}
    found = difflib.get_close_matches(_folded(word), names, n=1)
    return names[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``Did you mean …?``, or nothing when no known name is near."""
    name = nearest(word, known)
    return f"Did you mean {name}?" if name else ""


def _folded(name: str) -> str:
    return name.strip().lower().replace("-", "_")
