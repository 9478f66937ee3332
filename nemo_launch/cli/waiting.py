"""Waiting and following on the command line, and what Ctrl-C means meanwhile."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nemo_launch.cli import output

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus


def detached(prog: str, experiment: Experiment) -> int:
    """Say how to go on after Ctrl-C; the exit code."""
    from shlex import quote

    id, command = quote(experiment.id), output.command(prog)
    output.tell(
        f"\n{prog}: detached; the job goes on. To see its log again: {command} logs -f {id} "
        f"To end it: {command} cancel {id}\n"
    )
    return 130


def to_the_end(
    prog: str, experiment: Experiment, show_logs: bool, write: Callable[[str], None]
) -> tuple[list[TaskStatus], bool]:
    """Wait until all tasks have ended; the last answer, and whether the user interrupted.

    On this machine the first Ctrl-C sends TERM (time for a checkpoint), the second KILL. A lost terminal leaves the
    run alone: it has a session of its own, and only this process ends.

    Raises:
        KeyboardInterrupt: the tasks run elsewhere, and go on.
    """
    from nemo_launch import logs
    from nemo_launch.views import errors

    with _ending_local_runs(prog, experiment) as presses:
        if show_logs:
            statuses = logs.show(
                experiment,
                experiment.task_names,
                follow=True,
                attempt="all",
                write=write,
                tell=lambda text: output.tell(errors.note(prog, text)),
            )
        else:
            statuses = experiment.wait()
    return statuses, bool(presses)


def failures(statuses: Sequence[TaskStatus]) -> Iterator[str]:
    """What to say of tasks that did not succeed: ``train failed: exit code 7``."""
    for status in statuses:
        seen = status.observation
        if seen.state == "SUCCEEDED":
            continue
        if seen.state == "CANCELLED":
            yield f"{status.name} was " + (f"skipped: {seen.reason}" if seen.skipped else "cancelled")
        else:
            why = f"exit code {seen.exit_code}" if seen.exit_code is not None else ""
            if seen.reason not in ("", why, str(seen.failure)):
                why = f"{why}: {seen.reason}" if why else seen.reason
            yield f"{status.name} is {seen.state}" + (f": {why}" if why else "")
        yield from known(status)


def known(status: TaskStatus) -> Iterator[str]:
    """What the log of a failed task shows, and what helps."""
    if status.finding:
        yield f"{status.name} shows {status.finding.name}: {status.finding.means}"
        for remedy in status.finding.remedies:
            yield f"remedy: {remedy}"


@contextlib.contextmanager
def _ending_local_runs(prog: str, experiment: Experiment) -> Iterator[list[int]]:
    """While this lasts, Ctrl-C ends tasks of this machine; the list grows with each press."""
    presses: list[int] = []

    def press(number: int, _frame: object) -> None:
        # Work in a handler is fine here: Python runs it between two steps of the loop that waits.
        running = [pair for pair in experiment.jobs() if pair[1].kind == "local" and pair[0].handle]
        if not running:
            raise KeyboardInterrupt
        presses.append(number)
        first = len(presses) == 1
        what = "asked the run to end (TERM); Ctrl-C again kills it" if first else "killing the run"
        output.tell(f"\n{prog}: {what}\n")
        executor: Any = running[0][1]
        (executor.terminate if first else executor.kill)([job for job, _ in running])

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread, which is the only one that signals reach
        yield presses
        return
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)
