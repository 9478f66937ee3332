"""Failure signatures: what the log of a failed task shows, in plain words and with what helps (signatures.yaml)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

#: Longer lines are cut: a pattern is at their beginning, and none may take long.
_LINE = 2000
_SHOWN = 300
#: What the runner puts before lines where there is more than one rank.
_LABEL = re.compile(r"\[[^\s\[\]]+:\d+\] ")

#: Colours and the like, which programs write although nobody looks: ``ESC [ 31 m``, ``ESC ] 0;title BEL``.
_STYLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


@dataclass(frozen=True)
class Signature:
    """One kind of failure; signatures.yaml says what each key means."""

    name: str
    patterns: tuple[re.Pattern[str], ...]
    means: str
    remedies: tuple[str, ...]
    states: tuple[str, ...] = ()
    consequence: bool = False
    source: str = ""


@dataclass(frozen=True)
class Finding:
    """What was found in a task's log."""

    name: str
    means: str
    remedies: tuple[str, ...]
    line: str = ""
    """The line that shows it; empty where the scheduler says so."""


@cache
def known() -> tuple[Signature, ...]:
    """All signatures, in the order of the file."""
    import yaml

    with open(os.path.join(os.path.dirname(__file__), "signatures.yaml"), encoding="utf-8") as file:
        entries = yaml.safe_load(file)
    return tuple(
        Signature(
            name=entry["name"],
            patterns=tuple(re.compile(pattern) for pattern in entry["patterns"]),
            means=entry["means"],
            remedies=tuple(entry["remedies"]),
            states=tuple(entry.get("states", ())),
            consequence=entry.get("consequence", False),
            source=entry["source"],
        )
        for entry in entries
    )


def find(texts: Sequence[str], state: str = "") -> Finding | None:
    """The failure that texts (those that count most first) or the scheduler's state show.

    What other ranks say when one has failed counts only where nothing else is found.
    """
    found = [match for text in texts for match in _matches(text)]
    for consequence in (False, True):
        for signature, line in found:
            if signature.consequence is consequence:
                return Finding(signature.name, signature.means, signature.remedies, line)
        if not consequence:
            for signature in known():
                if state and state.split()[0] in signature.states:
                    return Finding(signature.name, signature.means, signature.remedies)
    return None


def _matches(text: str) -> Iterator[tuple[Signature, str]]:
    """Every line that matches, from the end on, with its signature (the first of the file that does)."""
    for line in reversed(text.splitlines()):
        words = _LABEL.sub("", _STYLE.sub("", line[:_LINE]), count=1).strip()
        for signature in known() if words else ():
            if any(pattern.search(words) for pattern in signature.patterns):
                yield signature, words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
                break
