"""``status --watch``: a table that stays up to date on a terminal; elsewhere a line for each change."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nemo_launch.layout import ExperimentPaths
from nemo_launch.views import block, tables
from nemo_launch.views.errors import one_paragraph

if TYPE_CHECKING:
    from nemo_launch.executors.base import Observation
    from nemo_launch.experiments.observing import TaskStatus

_HEADER = ("TASK", "STATUS", "JOB", "FOR", "")
#: Lines of the screen that are not rows: titles, the header, the two lines below.
_AROUND = 6


class Lines:
    """Writes one line for each task that has changed since the last answer; the first answer writes all."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.time) -> None:
        self._say, self._clock = say, clock
        self._last: dict[str, str] = {}

    def __call__(self, statuses: Sequence[TaskStatus]) -> None:
        """An answer."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._clock()))
        for status in statuses:
            now = f"{_title(status)}  {status.observation.state}" + (f"  {what}" if (what := told(status)) else "")
            if self._last.get(status.job.key) != now:
                self._last[status.job.key] = now
                self._say(f"{stamp}  {now}\n")

    def tick(self) -> None:
        """Time has passed."""


class Screen:
    """A table on a terminal, drawn in place; the time since the last answer goes on below it."""

    def __init__(self, live: Any, clock: Callable[[], float] = time.time) -> None:
        self._live, self._clock = live, clock
        self._statuses: Sequence[TaskStatus] = ()
        self._answered = clock()
        self._drawn = 0.0

    def __call__(self, statuses: Sequence[TaskStatus]) -> None:
        """An answer."""
        self._statuses, self._answered = statuses, self._clock()
        self._draw()

    def tick(self) -> None:
        """Time has passed."""
        if self._clock() - self._drawn >= 1:
            self._draw()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        self._drawn = self._clock()
        shown, hidden = fitting(self._statuses, self._live.console.size.height - _AROUND)
        ids = dict.fromkeys(_experiment(status) for status in self._statuses)
        titles = [Text(f"Experiment Status for {', '.join(ids)}", "bold", no_wrap=True, overflow="ellipsis")]
        rows = [row(status, self._drawn, several=len(ids) > 1) for status in shown]
        age = block.duration(self._drawn - self._answered)
        below = [Text(f"asked {age} ago. Ctrl-C leaves; the tasks go on.", "dim")]
        if hidden:
            below.insert(0, Text(f"… and {_counted(hidden)}", "dim"))
        self._live.update(Group(*titles, tables.table(_HEADER, rows), *below), refresh=True)


@contextlib.contextmanager
def screen() -> Iterator[Screen]:
    """A screen on the terminal of standard output, until the end of the block."""
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        yield Screen(live)


def told(status: TaskStatus) -> str:
    """What there is to say besides the state, in one line that changes only when something has changed."""
    seen = status.observation
    words = []
    if status.job.handle:
        words.append(f"job {status.job.handle}" + (f" on {seen.nodes}" if seen.nodes and not seen.state.final else ""))
    words += _more(seen)
    if seen.age is not None:
        words.append("last known")
    return "; ".join(words)


def row(status: TaskStatus, now: float, several: bool) -> tuple[str, str, str, str, str]:
    """Cells of the table."""
    seen = status.observation
    since = (seen.started if seen.started is not None else seen.submitted) if not seen.state.final else None
    if seen.state.final and seen.started is not None and seen.ended is not None:
        spent = block.duration(seen.ended - seen.started)
    else:
        spent = block.duration(now - since) if since is not None else ""
    more = [seen.nodes] if seen.nodes and not seen.state.final else []
    more += _more(seen)
    if seen.age is not None:
        more.append(f"last known {block.duration(seen.age)} ago")
    name = _title(status) if several else status.name
    return name, str(seen.state), str(status.job.handle or ""), spent, "; ".join(more)


def fitting(statuses: Sequence[TaskStatus], lines: int) -> tuple[list[TaskStatus], list[TaskStatus]]:
    """Those that have room, in their order, and the others: what goes on or went wrong before what waits or is done."""
    lines = max(lines, 1)
    if len(statuses) <= lines:
        return list(statuses), []
    order = {"FAILED": 0, "UNKNOWN": 0, "RUNNING": 1, "CANCELLED": 2, "PENDING": 3, "SUBMITTED": 3}
    ranked = sorted(range(len(statuses)), key=lambda n: order.get(str(statuses[n].observation.state), 4))
    chosen = set(ranked[:lines])
    return (
        [status for n, status in enumerate(statuses) if n in chosen],
        [status for n, status in enumerate(statuses) if n not in chosen],
    )


def _more(seen: Observation) -> list[str]:
    words = []
    if seen.exit_code:
        words.append(f"exit code {seen.exit_code}")
    if seen.reason and seen.reason != f"exit code {seen.exit_code}":
        words.append(" ".join(one_paragraph(seen.reason).split()))
    if seen.restarting:
        words.append(f"attempt {seen.attempt + 1} follows")
    elif seen.attempt:
        words.append(f"attempt {seen.attempt + 1}")
    if seen.estimated_start is not None:
        words.append(f"estimated start {time.strftime('%Y-%m-%d %H:%M', time.localtime(seen.estimated_start))}")
    return words


def _counted(statuses: Sequence[TaskStatus]) -> str:
    return ", ".join(f"{n} {state}" for state, n in Counter(str(s.observation.state) for s in statuses).items())


def _experiment(status: TaskStatus) -> str:
    return ExperimentPaths.around(status.job.paths).id


def _title(status: TaskStatus) -> str:
    return f"{_experiment(status)}/{status.name}"
