"""Writing to the user: plain when piped, colour on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nemo_launch.cli import streams
from nemo_launch.errors import LaunchError

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus


class Unwritable(LaunchError):
    """Standard output cannot be written: the disk behind it is full, say."""

    exit_code = 4


def say(text: str, exact: bool = False) -> None:
    """Write to standard output now; ``exact``: the very bytes of a log.

    Raises:
        Unwritable: it cannot be written. Nothing more is tried.
        BrokenPipeError: nobody reads on.
    """
    with _standard_output():
        streams.write(sys.stdout, text, exact)


def tell(text: str, exact: bool = False) -> None:
    """Write to standard error now; that nobody can read it is no fault."""
    try:
        streams.write(sys.stderr, text, exact)
    except OSError:
        streams.give_up(sys.stderr)


def flush() -> None:
    """Write what others (argparse) have left in standard output's buffer; raises what ``say`` does."""
    with _standard_output():
        sys.stdout.flush()


@contextlib.contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        streams.give_up(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise
        raise Unwritable(f"cannot write the output: {error.strerror}.") from error


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

        with _standard_output():
            tables.coloured_block(text)
    else:
        say(text + "\n")


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    from nemo_launch.views import tables

    if on_terminal():
        with _standard_output():
            tables.coloured(header, rows)
    else:
        say(tables.plain(header, rows))
