"""Waiting for the end without wearing out the scheduler: files are looked at often, the scheduler is asked rarely."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nemo_launch.errors import Unreachable
from nemo_launch.experiments.observing import TaskStatus

#: Seconds between two questions to a scheduler: grows from the first to the last.
SCHEDULER = (10.0, 60.0)
#: The same when a job has ended and only the scheduler's word for it is missing.
_ENDING = 1.0
#: Between two looks at files on this machine.
FILES = (0.1, 1.0)


def wait(
    ask: Callable[[], list[TaskStatus]],
    on_change: Callable[[list[TaskStatus]], None] | None = None,
    timeout: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[TaskStatus]:
    """Ask until no task will change any more (or ``timeout`` seconds have passed); the last answer.

    ``on_change`` gets every answer whose states differ from the one before. An exit record that a job leaves in its
    folder brings the next question forward, so that the end is noticed at once although the scheduler is asked rarely.
    """
    end = None if timeout is None else clock() + timeout
    interval, look = SCHEDULER[0], FILES[0]
    last: list[object] = []
    while True:
        try:
            tasks = ask()
        except Unreachable:
            if not last:
                raise
        else:
            states = [(task.observation.state, task.observation.raw, str(task.job.handle)) for task in tasks]
            if states != last:
                interval, look = SCHEDULER[0], FILES[0]
                if on_change:
                    on_change(tasks)
            last = list(states)
            if all(task.observation.state.final or task.observation.extra.get("stalled") for task in tasks):
                return tasks  # what a dead launcher did not submit, nobody will
        # "ending": the job has ended, and the scheduler is about to say how.
        soon = any(task.observation.extra.get("ending") for task in tasks)
        local = all(task.executor.kind == "local" for task in tasks)
        next_question = clock() + (look if local else _ENDING if soon else interval)
        records = _exit_records(tasks)
        while clock() < next_question and _exit_records(tasks) == records:
            if end is not None and clock() >= end:
                return tasks
            sleep(max(0.0, min(look, next_question - clock())))
        interval, look = min(interval * 1.5, SCHEDULER[1]), min(look * 1.5, FILES[1])
        if end is not None and clock() >= end:
            return tasks


def _exit_records(tasks: Sequence[TaskStatus]) -> int:
    """How many exit records lie in the folders of tasks that are not final."""
    return sum(
        len(task.executor.transport.read_matching([task.job.paths.patterns().exit_record()]))
        for task in tasks
        if not task.observation.state.final
    )
