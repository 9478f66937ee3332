"""A page of the documentation as a row of steps, and whether an output is the one that the page shows.

What the pages may hold (anything else cannot be tried, and is therefore no such block):

``bash``    is run, and must end with status 0. ``export`` and ``cd`` last until the end of the page.
``python``  is run as a program; after a sentence with "save … as `FILE`" it is written to that file instead, and so is
            a ``yaml`` block and a ``bash`` block.
``text``    right below a block that is run: lines of its output, in this order, among others.

A block needs a cluster when its section, or one above it, has "Slurm" in its heading. Blocks that only set variables
or write files are steps of both kinds of machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
RUN = ("bash", "python")
#: What the pages call the machine that they are read on.
HOST = "workstation"
UNDER_WAY = ("SUBMITTED", "PENDING", "RUNNING")

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
_SAVE = re.compile(r"[Ss]ave\b[^.]{0,60}? as\s+`([^`]+)`")
_SETTING = re.compile(r"(export|mkdir|cd) ")


@dataclass(frozen=True)
class Step:
    """One block that is run or written."""

    line: int
    language: str
    text: str
    slurm: bool
    file: str | None = None
    """Written there instead of run."""
    shown: tuple[str, ...] = ()
    """Lines of its output, as the page shows them."""

    @property
    def setting(self) -> bool:
        """It changes nothing but files and variables."""
        return bool(self.file) or all(_SETTING.match(line) for line in self.text.splitlines() if line.strip())


def steps(text: str) -> list[Step]:
    """All steps of a page, in order."""
    found: list[Step] = []
    end = 0
    for match in _FENCE.finditer(text):
        language, body = match[1], match[2]
        line = text.count("\n", 0, match.start()) + 1
        before = text[end : match.start()]
        if language == "text" and found and not before.strip():
            found[-1] = replace(found[-1], shown=tuple(filter(str.strip, body.splitlines())))
        else:
            named = _SAVE.search(before.strip().rpartition("\n\n")[2].replace("\n", " "))
            if named or language in RUN:
                found.append(Step(line, language, body, _under_slurm(text, match.start()), named[1] if named else None))
        end = match.end()
    return found


def languages(text: str) -> set[str]:
    """The words after the fences."""
    return {match[1] for match in _FENCE.finditer(text)}


def prose(text: str) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", text)


def _under_slurm(text: str, position: int) -> bool:
    above: dict[int, str] = {}
    plain = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text[:position])  # a # in a block is a comment
    for match in _HEADING.finditer(plain):
        above = {level: words for level, words in above.items() if level < len(match[1])}
        above[len(match[1])] = match[2]
    return any("Slurm" in words for words in above.values())


# -- is it the output that is shown? -------------------------------------------------------------------------------


def missing(shown: tuple[str, ...], output: str) -> Iterator[str]:
    """Lines that the output does not have (in this order)."""
    lines = iter(output.splitlines())
    for line in shown:
        if line.strip() == "…":
            continue
        pattern = pattern_of(line)
        if not any(pattern.fullmatch(real.rstrip()) for real in lines):
            yield line
            return  # what comes after it has nothing left to be compared with


def pattern_of(line: str) -> re.Pattern[str]:
    """Loose only where two runs differ.

    That is: folders of paths, ids and numbers of five or more digits, numbers with a point, the name of this machine,
    the state of a task that is under way, and ``…``, which stands for anything.
    """
    parts = []
    for word in re.split(r"(\s+)", line.rstrip()):
        start, slash, path = word.partition("/")
        if word.isspace():
            parts.append(r"\s+")
        elif word in UNDER_WAY:
            parts.append(f"(?:{'|'.join(UNDER_WAY)})")
        elif slash and not start[-1:].isalnum() and "/" in path:
            parts.append(_loose(start) + r"/\S*/" + _loose(path.rpartition("/")[2]))
        elif word.isdigit() and parts[-2:-1] == ["id:"]:
            parts.append(r"\d+")
        else:
            parts.append(_loose(word))
    return re.compile("".join(parts))


_VARIES = re.compile(rf"\d+\.\d+|\d{{5,}}|\d+(?=\.log\b)|{HOST}|…")


def _loose(word: str) -> str:
    parts, end = [], 0
    for match in _VARIES.finditer(word):
        kind = match[0]
        stands_for = r"[\w.-]+" if kind == HOST else ".*" if kind == "…" else r"\d+\.\d+" if "." in kind else r"\d+"
        parts += [re.escape(word[end : match.start()]), stands_for]
        end = match.end()
    return "".join((*parts, re.escape(word[end:])))
