"""The status block. Scripts parse its first lines, so their order and spelling never change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nemo_launch.executors.base import State

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus

_NEVER_STARTED = (State.UNSUBMITTED, State.SUBMITTED, State.PENDING)


def render(experiment: Experiment, statuses: Sequence[TaskStatus], program: str = "run.py") -> str:
    """The whole block, plain, without a newline at its end. ``program`` is what the next command starts with."""
    return "\n".join(_lines(experiment.id, statuses, program))


def _lines(experiment_id: str, statuses: Sequence[TaskStatus], program: str) -> Iterator[str]:
    # Each task has the lines of NeMo-Run first, then what else there is to say.
    yield f"Experiment Status for {experiment_id}"
    for number, status in enumerate(statuses):
        yield ""
        yield f"Task {number}: {status.name}"
        yield f"- Status: {status.observation.state}"
        yield f"- Executor: {status.executor.title}"
        yield f"- Job id: {status.job.handle or 'none'}"
        yield f"- Local Directory: {status.job.paths.dir}"
        yield from _further(experiment_id, status, program)


def next_command(experiment_id: str, status: TaskStatus, program: str = "run.py") -> str | None:
    """What one would most likely type next; None where there is nothing to suggest."""
    from shlex import quote

    state = status.observation.state
    if state is State.FAILED and status.job.handle:
        return f"{program} logs {quote(experiment_id)} {quote(status.name)}"
    if not state.final and state is not State.UNSUBMITTED:
        return f"{program} logs -f {quote(experiment_id)} {quote(status.name)}"
    return None


def _further(experiment_id: str, status: TaskStatus, program: str) -> Iterator[str]:
    seen, handle = status.observation, status.job.handle
    if seen.exit_code is not None:
        yield f"- Exit code: {seen.exit_code}"
    if seen.skipped:
        yield f"- Skipped: {_line(seen.reason) or 'a task that it depends on did not succeed'}"
    elif seen.reason and seen.reason != str(seen.failure):
        yield f"- Reason: {_line(seen.reason)}"
    if seen.failure:
        yield f"- First failure: {_line(str(seen.failure))}"
    if seen.restarting:
        yield f"- Restarting: attempt {seen.attempt + 1} follows"
    elif seen.attempt:
        yield f"- Attempt: {seen.attempt + 1}"
    if seen.age is not None:
        yield f"- Last known: {duration(seen.age)} ago, the scheduler does not answer now"
    if handle and not seen.skipped and (seen.started or seen.state not in (*_NEVER_STARTED, State.CANCELLED)):
        yield f"- Log: {status.job.paths.log(str(handle))}"
    command = next_command(experiment_id, status, program)
    if command:
        yield f"- Next: {command}"


def duration(seconds: float) -> str:
    """A length of time in the two largest units: ``1 h 4 min``."""
    whole = max(0, int(seconds))
    for size, unit, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def _line(words: str) -> str:
    from nemo_launch.views.errors import one_paragraph

    return " ".join(one_paragraph(words).split())
