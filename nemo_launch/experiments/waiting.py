"""Waiting for the end without wearing out the scheduler: files are looked at often, the scheduler is asked rarely."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nemo_launch.errors import Unreachable
from nemo_launch.experiments.observing import TaskStatus
from nemo_launch.transport import Transport

#: Seconds between two questions to a scheduler: grows from the first to the last, and starts again after a change.
SCHEDULER = (10.0, 60.0)
#: The same when a job has ended and only the scheduler's word for it is missing: grows, too.
_ENDING = 1.0
#: Between two looks at files on this machine.
FILES = (0.1, 1.0)
_GROWTH = 1.5


def wait(
    ask: Callable[[], list[TaskStatus]],
    on_change: Callable[[list[TaskStatus]], None] | None = None,
    timeout: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    on_answer: Callable[[list[TaskStatus]], None] | None = None,
    interval: float = SCHEDULER[0],
) -> list[TaskStatus]:
    """Ask until no task will change any more (or ``timeout`` seconds have passed); the last answer.

    ``on_change`` gets every answer whose states differ from the one before, ``on_answer`` every answer. An exit record
    that a job leaves in its folder brings the next question forward, so that the end is noticed at once although the
    scheduler is asked rarely. ``interval``: seconds between the first two questions.
    """
    end = None if timeout is None else clock() + timeout
    pace = Pace(interval)
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
                pace = Pace(interval)
                if on_change:
                    on_change(tasks)
            last = list(states)
            if on_answer:
                on_answer(tasks)
            if all(task.observation.state.final or task.observation.extra.get("stalled") for task in tasks):
                return tasks  # what a dead launcher did not submit, nobody will
        next_question = clock() + pace.until_next(tasks)
        records = _exit_records(tasks)
        while clock() < next_question and _exit_records(tasks) == records:
            if end is not None and clock() >= end:
                return tasks
            sleep(max(0.0, min(pace.look, next_question - clock())))
        pace.slower()
        if end is not None and clock() >= end:
            return tasks


class Pace:
    """How long to wait between two questions, and between two looks at files: longer each time."""

    def __init__(self, interval: float) -> None:
        self.look = FILES[0]
        self._interval, self._ending = interval, min(_ENDING, interval)
        self._longest = max(interval, SCHEDULER[1])

    def until_next(self, tasks: Sequence[TaskStatus]) -> float:
        """Seconds."""
        if all(task.executor.kind == "local" for task in tasks):
            return self.look
        # "ending": the job has ended, and the scheduler is about to say how.
        ending = any(task.observation.extra.get("ending") for task in tasks)
        return self._ending if ending else self._interval

    def slower(self) -> None:
        """Nothing has changed."""
        self.look = min(self.look * _GROWTH, FILES[1])
        self._interval = min(self._interval * _GROWTH, self._longest)
        self._ending = min(self._ending * _GROWTH, self._longest)


def _exit_records(tasks: Sequence[TaskStatus]) -> int:
    """How many exit records lie in the folders of tasks that are not final: one look for all of one machine."""
    patterns: dict[str, tuple[Transport, list[str]]] = {}
    for task in tasks:
        if not task.observation.state.final:
            transport = task.executor.transport
            patterns.setdefault(transport.name, (transport, []))[1].append(task.job.paths.patterns().exit_record())
    return sum(len(transport.read_matching(wanted)) for transport, wanted in patterns.values())
