"""Tables: for people on a terminal with rich, else columns of plain text with nothing cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "RUNNING": "cyan",
    "PENDING": "blue",
    "UNKNOWN": "magenta",
}


def plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two blanks between them, no lines drawn."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    return "".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() + "\n" for row in table)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of rich; words that are states have their colours."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell, _COLOURS.get(cell.split(" ")[-1], "")) for cell in row))
    return made


def coloured(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with rich."""
    from rich.console import Console

    Console().print(table(header, rows))


def coloured_block(text: str) -> None:
    """Print a status block with rich; the words are those of the plain block, none is wrapped."""
    from rich.console import Console
    from rich.text import Text

    shown = Text()
    for line in text.splitlines():
        label, found, value = line.partition(": ")
        if not found:
            shown.append(line + "\n", "bold" if line.startswith("Experiment") else "")
            continue
        shown.append(label + ": ", "dim" if label.startswith("- ") else "bold")
        style = "red" if label in ("- First failure", "- Exit code") and value != "0" else _COLOURS.get(value, "")
        shown.append(value + "\n", style)
    Console(soft_wrap=True, highlight=False).print(shown, end="")
