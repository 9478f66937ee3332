"""What tasks print: shown as it is now, or followed until they end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from nemo_launch.cli import streams
from nemo_launch.errors import InputError, LaunchError, Problem
from nemo_launch.executors.base import State
from nemo_launch.tailing import Selection, Stream, Write

if TYPE_CHECKING:
    from nemo_launch.experiments.asked import Asked
    from nemo_launch.experiments.observing import TaskStatus

#: Seconds between two looks at a log that is followed.
_LOOK = 0.3


def show(
    experiment: Asked,
    names: str | Sequence[str],
    follow: bool = False,
    rank: int | None = None,
    node: str | None = None,
    lines: int | None = None,
    attempt: int | Literal["all"] | None = None,
    write: Write | None = None,
    tell: Write | None = None,
) -> list[TaskStatus]:
    """Write the logs of some tasks, and with ``follow`` go on until all of them have ended.

    Args:
        experiment: whose tasks.
        names: one task or several.
        follow: wait for lines until the tasks are final.
        rank, node, lines: see ``Selection``.
        attempt: of tasks that were started again only this one (1 is the first), or ``"all"`` one after the other;
            default: the newest, and with ``follow`` those that come after it.
        write: gets the text, in which bytes that are no UTF-8 are ``surrogateescape``d; default: standard output,
            which gets the log's own bytes.
        tell: gets lines for people, that there is no log yet or that there are earlier ones; default: nowhere.

    Returns:
        What was last known of the tasks.

    Raises:
        InputError: no such rank, node or attempt.
        LaunchError: there is nothing to show (without ``follow``).
    """
    chosen = [names] if isinstance(names, str) else list(names)
    number = attempt - 1 if isinstance(attempt, int) else attempt
    if follow and isinstance(number, int):
        fix = "Leave one of them out."
        raise InputError(Problem("following goes on through all attempts that are to come", "attempt", fix))
    stream = Stream(chosen, write or _print, Selection(rank, node, lines, number))

    def ask() -> list[TaskStatus]:
        return [status for status in experiment.statuses() if status.name in chosen]

    statuses = ask()
    stream.update(statuses)
    if tell and attempt is None:
        for name, newest in stream.newest.items():
            if newest:
                before = f"--attempt {newest} shows the one before, --attempt all all of them"
                tell(f"{name}: this is attempt {newest + 1}; {before}")
    stream.tail()
    if follow:
        statuses = _follow(stream, ask, statuses, tell)
    _drain(stream, remote=any(s.executor.kind != "local" for s in statuses) and follow)
    if not stream.found:
        if isinstance(number, int) and stream.newest and number > max(stream.newest.values()):
            had = "; ".join(f"{name} has had {newest + 1}" for name, newest in stream.newest.items())
            raise InputError(Problem(f"there is no log of attempt {attempt}: {had}", "attempt", "They count from 1."))
        _nothing(statuses, rank, follow, tell)
    elif node and node not in stream.nodes:
        known = f"The lines come from {', '.join(sorted(stream.nodes))}." if stream.nodes else _UNLABELLED
        raise InputError(Problem(f"no line of the log comes from node {node}", "node", known))
    return statuses


_UNLABELLED = "Lines name their node only where there is more than one rank."


def _follow(
    stream: Stream,
    ask: Callable[[], list[TaskStatus]],
    first: list[TaskStatus],
    tell: Write | None,
) -> list[TaskStatus]:
    from nemo_launch.experiments import waiting

    answers = [first]

    def next_answer() -> list[TaskStatus]:
        return answers.pop() if answers else ask()

    def nap(seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            while stream.pump():
                pass
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(_LOOK, left))

    def changed(statuses: list[TaskStatus]) -> None:
        stream.update(statuses)
        if tell and not stream.found and not all(s.observation.state.final for s in statuses):
            tell(f"no log yet, waiting: {_states(statuses)}")

    return waiting.wait(next_answer, changed, sleep=nap)


def _drain(stream: Stream, remote: bool) -> None:
    """What was written last. A shared file system shows the end of a log a little after the end of the job."""
    while stream.pump():
        pass
    if remote:
        time.sleep(_LOOK)
    while stream.pump(last=True):
        pass


def _nothing(statuses: Sequence[TaskStatus], rank: int | None, follow: bool, tell: Write | None) -> None:
    """Say that there is no log, and why: as an error where showing it was all that was asked for."""
    started = [s for s in statuses if s.observation.started or s.observation.state is State.RUNNING]
    if rank is not None and started:
        fix = "Ranks count from 0, and have logs of their own under torchrun and srun."
        raise InputError(Problem(f"there is no log of rank {rank}: {_states(statuses)}", "rank", fix))
    if not all(s.observation.state.final for s in statuses):
        hint = "" if follow else " With -f the lines are shown as they come."
        text = f"there is no log yet: {_states(statuses)}.{hint}"
    elif started:
        text = f"there is no log: {_states(statuses)}. It was never written, or it was removed."
    else:
        text = f"there is no log, and none will come: {_states(statuses)}."
    if not follow:
        raise LaunchError(text)
    if tell:
        tell(text)


def _states(statuses: Sequence[TaskStatus]) -> str:
    return "; ".join(
        f"{s.name} is {s.observation.state}" + (f" ({s.observation.reason})" if s.observation.reason else "")
        for s in statuses
    )


def _print(text: str) -> None:
    streams.write(sys.stdout, text, exact=True)
