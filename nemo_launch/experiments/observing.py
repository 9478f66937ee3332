"""What became of the tasks of one or many experiments: one question per scheduler for all of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nemo_launch import records
from nemo_launch.errors import RecordError
from nemo_launch.executors.base import Executor, Handle, Job, Observation, Recovery, State
from nemo_launch.experiments import ledger
from nemo_launch.layout import ExperimentPaths

if TYPE_CHECKING:
    from nemo_launch.signatures import Finding


class TaskStatus(NamedTuple):
    """One task and the truth about it."""

    name: str
    job: Job
    executor: Executor
    observation: Observation
    finding: Finding | None = None
    """What the log of a failed task shows."""


def observe(tasks: Sequence[tuple[Job, Executor]]) -> list[TaskStatus]:
    """The state of all tasks, in order. Ids that a killed launcher did not record are found and recorded."""
    found, open_ends = recover(tasks)
    jobs = [(found.get(job.key, job), executor) for job, executor in tasks]
    seen: dict[str, Observation] = {}
    for executor, group in _groups([(job, executor) for job, executor in jobs if job.handle]):
        seen.update(executor.poll(group))
    statuses = []
    for job, executor in jobs:
        observation = seen.get(job.key) or _unsubmitted(job, job.key in open_ends)
        job = _owning(job, observation)
        statuses.append(TaskStatus(job.name, job, executor, observation, _finding(job, executor, observation)))
    return statuses


def _finding(job: Job, executor: Executor, seen: Observation) -> Finding | None:
    if seen.state is not State.FAILED:
        return None
    from nemo_launch.signatures.reading import finding

    return finding(job, executor, seen)


def _owning(job: Job, seen: Observation) -> Job:
    """Of two jobs for one submission the one that runs it: its id is the task's from now on."""
    owner = seen.extra.get("job_id")
    if not job.handle or not owner or owner == job.handle.job_id:
        return job
    handle = Handle(str(owner), job.handle.cluster)
    with contextlib.suppress(RecordError):
        ledger.write_handle(job.paths, handle)
    return job._replace(handle=handle)


def refresh(
    paths: ExperimentPaths, tasks: Sequence[tuple[str, tuple[str, ...], Executor]]
) -> list[tuple[Job, Executor]]:
    """The record's view of every task, read anew."""
    return [
        (ledger.read_job(name, paths.task(name, executor.job_dir), after), executor) for name, after, executor in tasks
    ]


def recover(tasks: Sequence[tuple[Job, Executor]]) -> tuple[dict[str, Job], set[str]]:
    """Jobs whose intent had no id, but which the scheduler knows; their ids are recorded now (by ``Job.key``).

    Beside them the keys of those of which it cannot be said yet.
    """
    lost = [(job, executor) for job, executor in tasks if job.intended is not None and job.handle is None]
    found: dict[str, Job] = {}
    open_ends: set[str] = set()
    for executor, group in _groups(lost):
        answers = executor.recover(group)
        for job in group:
            answer = answers.get(job.key)
            if isinstance(answer, Handle):
                # A record that cannot be written now (full disk, another user's) is written the next time.
                with contextlib.suppress(RecordError):
                    ledger.write_handle(job.paths, answer)
                found[job.key] = job._replace(handle=answer, submitted=time.time())
            elif answer is not Recovery.GONE:
                open_ends.add(job.key)
    return found, open_ends


def _groups(tasks: Iterable[tuple[Job, Executor]]) -> list[tuple[Executor, list[Job]]]:
    """Tasks by scheduler: executors of one kind on one machine share their questions."""
    groups: dict[tuple[str, str], tuple[Executor, list[Job]]] = {}
    for job, executor in tasks:
        groups.setdefault((executor.kind, executor.transport.name), (executor, []))[1].append(job)
    return list(groups.values())


def _unsubmitted(job: Job, open_end: bool) -> Observation:
    refused = records.read_json(job.paths.refused)
    if refused and refused.get("skipped"):
        return Observation(State.CANCELLED, reason=str(refused.get("reason", "")), skipped=True)
    if open_end:
        reason = "its submission is under way, or the scheduler does not say whether it has the job"
        return Observation(State.UNSUBMITTED, reason=reason)
    alive, _ = ledger.launcher_alive(ExperimentPaths.around(job.paths))
    again = "" if alive is not False else "; the same command again goes on with it"
    if refused:
        reason = f"the scheduler refused it: {refused.get('reason', '')}"
    elif job.intended is not None:
        reason = f"its submission did not get through: the scheduler does not know it{again}"
    elif alive is not False:
        reason = "not submitted yet"
    else:
        reason = f"its launch was interrupted before it was submitted{again}"
    return Observation(State.UNSUBMITTED, reason=reason, extra={} if alive is not False else {"stalled": True})
