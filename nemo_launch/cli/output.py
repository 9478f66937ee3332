"""Writing to the user: plain when piped, colour on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from nemo_launch.experiment import Experiment
    from nemo_launch.observing import TaskStatus


def say(text: str) -> None:
    """Write to standard output now."""
    _write(sys.stdout, text)


def tell(text: str) -> None:
    """Write to standard error now; a reader that went away is no fault."""
    with contextlib.suppress(OSError):
        _write(sys.stderr, text)


def on_terminal() -> bool:
    """Whether people read standard output directly and want colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def command(prog: str) -> str:
    """What to type for this program, to be pasted: ``python3 path/run.py`` where run.py was called by a Python."""
    from shlex import quote

    typed = sys.argv[0] if sys.argv else ""
    return f"python3 {quote(typed)}" if prog == "run.py" and os.path.basename(typed) == prog else prog


def show_block(prog: str, experiment: Experiment, statuses: Sequence[TaskStatus]) -> None:
    """Print the status block."""
    from nemo_launch.views import block

    text = block.render(experiment, statuses, command(prog))
    if on_terminal():
        from nemo_launch.views import tables

        tables.coloured_block(text)
    else:
        say(text + "\n")


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    from nemo_launch.views import tables

    if on_terminal():
        tables.coloured(header, rows)
    else:
        say(tables.plain(header, rows))


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        # Names and scripts are bytes to the system; they leave as they came in, whatever the locale says.
        buffer = getattr(stream, "buffer", None)
        if buffer is None:
            stream.write(text.encode("ascii", "backslashreplace").decode())
        else:
            stream.flush()
            try:
                buffer.write(text.encode("utf-8", "surrogateescape"))
            except UnicodeEncodeError:
                buffer.write(text.encode("utf-8", "backslashreplace"))
    stream.flush()
