"""The status block. Scripts parse its first lines, so their order and spelling never change."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nemo_launch.executors.base import Observation, State

if TYPE_CHECKING:
    from nemo_launch.experiments.asked import Asked
    from nemo_launch.experiments.observing import TaskStatus

_NEVER_STARTED = (State.UNSUBMITTED, State.SUBMITTED, State.PENDING)


def render(experiment: Asked, statuses: Sequence[TaskStatus], program: str = "run.py") -> str:
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
    if seen.estimated_start is not None:
        yield f"- Estimated start: {when(seen.estimated_start)}"
    yield from _parts(seen)
    if seen.failure:
        yield f"- First failure: {_line(str(seen.failure))}"
    if status.finding:
        line = f": {_line(status.finding.line)}" if status.finding.line else ""
        yield f"- Known failure: {status.finding.name}, {status.finding.means}{line}"
        for remedy in status.finding.remedies:
            yield f"- Remedy: {remedy}"
    if seen.restarting:
        yield f"- Restarting: attempt {seen.attempt + 1}{_of_at_most(status)} follows"
    elif seen.attempt:
        yield f"- Attempt: {seen.attempt + 1}{_of_at_most(status)}"
    if seen.age is not None:
        yield f"- Last known: {duration(seen.age)} ago"
    if handle and not seen.skipped and (seen.started or seen.state not in (*_NEVER_STARTED, State.CANCELLED)):
        yield f"- Log: {status.job.paths.log(str(handle))}"
    command = next_command(experiment_id, status, program)
    if command:
        yield f"- Next: {command}"


#: So many lines tell of the parts of a job; JSON has all.
_PARTS = 20


def _parts(seen: Observation) -> Iterator[str]:
    """A line for each component of a heterogeneous job, and one for all indices of an array that are alike."""
    alike: dict[str, list[str]] = {}
    told: dict[int, str] = {}  # what waits alike is one and the same
    for job_id, part in seen.parts.items():
        what = told.get(id(part)) or told.setdefault(id(part), _part(part))
        alike.setdefault(what if "_" in job_id else f"{what}\0{job_id}", []).append(job_id)
    lines = [f"- {_named(ids)}: {what.partition(chr(0))[0]}" for what, ids in alike.items()]
    yield from lines[:_PARTS]
    if len(lines) > _PARTS:
        yield f"- Further: {len(lines) - _PARTS} lines, see --json"


def _part(part: Observation) -> str:
    what = str(part.state) + (f" on {part.nodes}" if part.nodes and part.state is State.RUNNING else "")
    if part.state is not State.SUCCEEDED and part.reason:
        what += f": {_line(part.reason)}"
    if part.age is not None:
        what += f" (last known {duration(part.age)} ago)"
    return what


def _named(ids: Sequence[str]) -> str:
    """``Index 13_2``, ``Indices 13_[0,3-9]``, ``Part 24+1``."""
    job_id, mark, _ = ids[0].partition("_")
    if not mark:
        return f"Part {ids[0]}" if "+" in ids[0] else f"Indices of {ids[0]} that never started"
    if len(ids) == 1:
        return f"Index {ids[0]}"
    spans: list[list[int]] = []
    for number in sorted(int(one.rpartition("_")[2]) for one in ids):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return f"Indices {job_id}_[{','.join(str(a) if a == b else f'{a}-{b}' for a, b in spans)}]"


def when(moment: float) -> str:
    """A moment that lies ahead, in local time: ``2026-11-30 22:23:13 (in 4 min)``."""
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    left = moment - time.time()
    return f"{shown} (in {duration(left)})" if left >= 1 else shown


def _of_at_most(status: TaskStatus) -> str:
    most = getattr(status.executor, "max_attempts", None)
    return f" of at most {most}" if most and most > 1 else ""


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
