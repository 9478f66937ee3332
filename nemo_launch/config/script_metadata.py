"""What a script says of itself: the ``[tool.nemo-launch]`` table of its PEP 723 block, read without running it."""

from __future__ import annotations

import datetime
import importlib
import re
import sys
from typing import Any

#: The pattern that PEP 723 gives, for any type of block.
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_START = re.compile(r"(?m)^# /// script\s*$")
#: Short names that the flags have too.
_ALIASES = {"image": "container_image"}


def read(text: str) -> dict[str, Any] | None:
    """Fields of the config dataclasses that a script asks for; None where it has no such table.

    Names may be written with ``-`` for ``_``; ``image`` is ``container_image``. Which fields exist, and of which types,
    is for the config dataclass to say.

    Raises:
        ValueError: the block is broken; the message begins with the line.
    """
    if "# /// script" not in text or "nemo-launch" not in text:
        return None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    blocks = [match for match in _BLOCK.finditer(text) if match["type"] == "script"]
    starts = [_line(text, match.start()) for match in _START.finditer(text)]
    if len(blocks) > 1:
        second = _line(text, blocks[1].start())
        raise ValueError(f"line {second}: a second '# /// script' block; a file has one")
    if not blocks:
        if not starts:
            return None
        raise ValueError(
            f"line {starts[0]}: the '# /// script' block is not well formed: every line begins with '# ' "
            "(or is '#'), and '# ///' ends it"
        )
    content = "".join(
        line[2:] if line.startswith("# ") else line[1:] for line in blocks[0]["content"].splitlines(keepends=True)
    )
    if "nemo-launch" not in content:
        return None
    first = _line(text, blocks[0].start("content"))
    table = _toml(content, first).get("tool", {})
    table = table.get("nemo-launch") if isinstance(table, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ValueError(f"line {_where(content, first, 'nemo-launch')}: tool.nemo-launch is not a table")
    return _fields(table, content, first)


def _fields(table: dict[str, Any], content: str, first: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        name = _ALIASES.get(name, name)
        line = _where(content, first, key)
        if name in found:
            raise ValueError(f"line {line}: {key} names the field {name} a second time")
        if isinstance(value, (datetime.time, datetime.date)):
            # Unquoted, TOML reads 01:00:00 as a time of day.
            raise ValueError(f'line {line}: {key} = {value} is a time of day in TOML; quote it: {key} = "{value}"')
        found[name] = value
    return found


def _toml(content: str, first: int) -> dict[str, Any]:
    tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = tomllib.loads(content)
        return table
    except tomllib.TOMLDecodeError as error:
        words = str(error)
        place = re.search(r" \(at line (\d+), column (\d+)\)$", words)
        if place:
            words = words[: place.start()]
            line = first + int(place[1]) - 1
        else:  # "at end of document"
            line = first + content.count("\n") - 1
        raise ValueError(f"line {line}: the script block is not TOML: {words}") from error


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _where(content: str, first: int, key: str) -> int:
    """Line of the file where a key of our table is set."""
    start = content.find("nemo-launch")
    match = re.compile(rf"(?m)^[^\n#=]*(?<![\w-]){re.escape(key)}(?![\w-])").search(
        content, content.rfind("\n", 0, start) + 1
    )
    return first + content.count("\n", 0, match.start() if match else start)
