"""The state of many jobs with at most one squeue and one sacct for each cluster."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nemo_launch.errors import SchedulerError
from nemo_launch.executors.base import Handle, Job, Observation, State
from nemo_launch.executors.outcome import Outcome, read_outcomes
from nemo_launch.executors.slurm import commands, seen, words
from nemo_launch.executors.slurm.merge import SKEW, Evidence, Seen, merge, needs_word, never_starts, same_job
from nemo_launch.executors.slurm.query import Answer, Row, Slurm
from nemo_launch.transport import Transport


@dataclass(frozen=True)
class _Known:
    """One job on its way through the questions."""

    job: Job
    """With the id that counts: of two jobs for one submission the one that claimed it."""
    given: Job
    outcome: Outcome
    seen: Seen | None
    queue: Row | None = None
    answer: Answer = Answer()

    @property
    def id(self) -> str:
        return str(self.job.handle)


def poll(transport: Transport, jobs: Sequence[Job], clock: Callable[[], float] = time.time) -> dict[str, Observation]:
    """See ``Executor.poll``."""
    slurm = Slurm(transport)
    result: dict[str, Observation] = {}
    last = {job.key: seen.load(job) for job in jobs}
    asked = []
    for job in jobs:
        before = last[job.key]
        if before and before.settled and before.observation.state.final:
            result[job.key] = before.observation
        else:
            asked.append(job)
    known = _read(transport, asked, last)
    by_cluster: dict[str | None, list[_Known]] = {}
    for one in known:
        if one.job.handle is None:
            result[one.job.key] = _without_id(transport, one)
        else:
            by_cluster.setdefault(one.job.handle.cluster, []).append(one)
    for cluster, group in by_cluster.items():
        _ask(transport, slurm, cluster, group, clock(), jobs, result)
    for job in jobs:
        if result[job.key].skipped:
            result[job.key] = _blame(job, jobs, result)
    return result


def _blame(job: Job, jobs: Sequence[Job], result: dict[str, Observation]) -> Observation:
    """A skipped task with the name of what did not succeed before it, as far as it was asked for."""
    before = _before(job, jobs, result)
    ended = [name for name in job.after if name in before and before[name].state in (State.FAILED, State.CANCELLED)]
    names = ended or list(job.after) or ["a job that it depends on"]
    blamed = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return replace(result[job.key], reason=f"not started: {blamed} did not succeed")


def _doomed(job: Job, cancelled: float | None, jobs: Sequence[Job], result: dict[str, Observation]) -> bool | None:
    """Whether a task that it depends on had not succeeded when it was cancelled; None: that is not known (yet)."""
    before = _before(job, jobs, result)
    for one in before.values():
        later = cancelled is not None and one.ended is not None and one.ended > cancelled + SKEW
        if one.state in (State.FAILED, State.CANCELLED) and not later:
            return True
    return False if all(name in before and before[name].state.final for name in job.after) else None


def _before(job: Job, jobs: Sequence[Job], result: dict[str, Observation]) -> dict[str, Observation]:
    """The tasks that it depends on, as far as they were asked for."""
    folder = os.path.dirname(job.paths.dir)
    same = (o for o in jobs if o.name in job.after and os.path.dirname(o.paths.dir) == folder)
    return {o.name: result[o.key] for o in same if o.key in result}


def _read(transport: Transport, jobs: Sequence[Job], last: dict[str, Seen | None]) -> list[_Known]:
    outcomes = read_outcomes(transport, jobs)
    known, moved = [], []
    for job in jobs:
        owner, cluster = outcomes[job.key].owner, job.handle.cluster if job.handle else None
        effective = job
        if owner and (job.handle is None or job.handle.job_id != owner):
            effective = replace(job, handle=Handle(owner, cluster))
            moved.append(effective)
        known.append(_Known(effective, job, outcomes[job.key], last[job.key]))
    if moved:
        again = read_outcomes(transport, moved)
        known = [replace(one, outcome=again.get(one.job.key, one.outcome)) for one in known]
    return known


def _ask(
    transport: Transport,
    slurm: Slurm,
    cluster: str | None,
    group: Sequence[_Known],
    now: float,
    jobs: Sequence[Job],
    result: dict[str, Observation],
) -> None:
    """Puts the answers of one cluster's jobs into the result, in their order: each may need those before it."""
    queue = slurm.squeue([one.id for one in group], cluster)
    group = [replace(one, queue=_own(queue, one)) for one in group]
    # Records are written before the scheduler knows of the end, so what was missing may be there now.
    late = [one for one in group if one.outcome.exit_code is None and _may_have_ended(one.queue)]
    outcomes = read_outcomes(transport, [one.job for one in late]) if late else {}
    group = [replace(one, outcome=outcomes.get(one.job.key, one.outcome)) for one in group]
    doubtful = [one for one in group if _needs_accounting(one)]
    since = min((one.job.intended or one.job.submitted or now for one in doubtful), default=now)
    account = slurm.sacct([one.id for one in doubtful], since, cluster) if doubtful else Answer()
    stuck = []
    for one in group:
        row = one.queue or _own(account, one)
        evidence = Evidence(
            job=one.job,
            now=now,
            outcome=one.outcome,
            queue=one.queue,
            account=_own(account, one),
            controller=queue.error,
            accounting=account.error,
            no_accounting=account.disabled,
            seen=one.seen,
            cancelled=transport.exists(one.job.paths.cancelled),
            doomed=_doomed(one.given, row.ended if row else None, jobs, result),
        )
        observation = merge(evidence)
        if one.job.handle != one.given.handle:
            observation = replace(observation, extra={**observation.extra, "job_id": one.id})
        seen.save(evidence, observation)
        if observation.state.final:  # a job that never started could not do it itself
            with contextlib.suppress(OSError):
                transport.remove(one.job.paths.secrets)
        result[one.given.key] = observation
        if never_starts(one.queue):
            stuck.append(one.id)
    if stuck:  # a job of ours that can never start would stay in the queue for ever
        with contextlib.suppress(SchedulerError):  # the next poll tries again
            cancel(transport, stuck, cluster)


def cancel(transport: Transport, ids: Sequence[str], cluster: str | None) -> str:
    """scancel; what it complained about. Unknown ids are no complaint."""
    on = ["-M", cluster] if cluster else []
    done = transport.run(["scancel", *on, *ids], env=commands.query(), timeout=60.0)
    return done.stderr.strip() if done.returncode != 0 else ""


def _own(answer: Answer, one: _Known) -> Row | None:
    row = answer.rows.get(one.id)
    return row if row and same_job(row, one.job) else None


def _may_have_ended(row: Row | None) -> bool:
    return row is None or row.state == "COMPLETING" or words.state(row.state)[0].final


def _needs_accounting(one: _Known) -> bool:
    """Whether accounting could say more than what is known by now."""
    unexplained = one.outcome.exit_code is not None and needs_word(one.outcome, cancelled=False)
    if one.queue is None:
        return one.outcome.exit_code != 0 or unexplained
    if one.queue.state == "COMPLETING":  # squeue's word for it hides how it ended
        return unexplained
    ended_unexplained = words.state(one.queue.state)[0] is State.FAILED and one.queue.reason != "JobLaunchFailure"
    return ended_unexplained and one.outcome.exit_code is None


def _without_id(transport: Transport, one: _Known) -> Observation:
    if transport.exists(one.job.paths.cancelled):
        return Observation(State.CANCELLED, reason="cancelled before it was submitted")
    text = "its submission was interrupted, and the scheduler does not show it" if one.job.intended else "not submitted"
    return Observation(State.UNSUBMITTED, reason=text)
