"""The state of many jobs with at most one squeue and one sacct for each cluster."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nemo_launch.errors import SchedulerError
from nemo_launch.executors.base import Handle, Job, Observation, State
from nemo_launch.executors.outcome import Outcome, read_outcomes
from nemo_launch.executors.slurm import commands, parts, seen, skipped, words
from nemo_launch.executors.slurm.merge import BY, Evidence, Seen, merge, needs_word, never_starts, same_job
from nemo_launch.executors.slurm.owners import owned
from nemo_launch.executors.slurm.query import Answer, Row, Slurm
from nemo_launch.transport import Transport

_BY = re.compile(f"{BY}user ([0-9]+)$")


class _Known(NamedTuple):
    """One job on its way through the questions."""

    job: Job
    """With the id that counts."""
    given: Job
    handle: Handle
    seen: Seen | None
    outcome: Outcome = Outcome()


def poll(transport: Transport, jobs: Sequence[Job], clock: Callable[[], float] = time.time) -> dict[str, Observation]:
    """See ``Executor.poll``."""
    slurm = Slurm(transport)
    result: dict[str, Observation] = {}
    last = seen.load(transport, jobs)
    asked = []
    for job in jobs:
        before = last[job.key]
        if before and before.settled and before.observation.state.final:
            result[job.key] = before.observation
        else:
            asked.append(job)
    unknown: list[Job] = []
    by_cluster: dict[str | None, list[_Known]] = {}
    for job, given in zip(owned(transport, asked), asked, strict=True):
        if job.handle is None:
            unknown.append(job)
        else:
            by_cluster.setdefault(job.handle.cluster, []).append(_Known(job, given, job.handle, last[job.key]))
    outcomes = read_outcomes(transport, unknown)
    result.update({job.key: _without_id(job, outcomes[job.key]) for job in unknown})
    for cluster, group in by_cluster.items():
        _ask(transport, slurm, cluster, group, clock, jobs, result)
    for job in jobs:
        if result[job.key].skipped:
            result[job.key] = skipped.blame(job, jobs, result)
    return result


def _ask(
    transport: Transport,
    slurm: Slurm,
    cluster: str | None,
    group: Sequence[_Known],
    clock: Callable[[], float],
    jobs: Sequence[Job],
    result: dict[str, Observation],
) -> None:
    """Puts the answers of one cluster's jobs into the result, in their order: each may need those before it."""
    mine, now = _mine(group), clock()
    outcomes: dict[str, Outcome] = {}

    def read() -> None:
        outcomes.update(read_outcomes(transport, [one.job for one in group]))

    queue = slurm.squeue(_ids(group), cluster, mine, meanwhile=read)
    if not outcomes:  # nobody was reached who could have been waited for
        read()
    group = [one._replace(outcome=outcomes[one.job.key]) for one in group]
    # Records are written before the scheduler knows of the end, so what was missing may be there now.
    late = [one for one in group if one.outcome.exit_code is None and _may_have_ended(_own(queue, one))]
    outcomes.update(read_outcomes(transport, [one.job for one in late]))
    group = [one._replace(outcome=outcomes[one.job.key]) for one in group]
    doubtful = [one for one in group if _needs_accounting(one, queue)]
    since = min((one.job.intended or one.job.submitted or now for one in doubtful), default=now)
    account = slurm.sacct(_ids(doubtful), since, cluster, mine) if doubtful else Answer()
    stuck = []
    for one in group:
        own, booked = _own(queue, one), _own(account, one)
        row = own or booked
        evidence = Evidence(
            job=one.job,
            now=now,
            outcome=one.outcome,
            queue=own,
            account=booked,
            controller=queue.error,
            accounting=account.error,
            no_accounting=account.disabled,
            seen=one.seen,
            cancelled=one.outcome.cancelled,
            doomed=skipped.doomed(one.given, row.ended if row else None, jobs, result),
        )
        consists_of = [] if own else parts.ids(one.job, one.handle, queue, account, one.seen)
        observation = parts.merged(evidence, consists_of, queue, account) if consists_of else merge(evidence)
        if one.handle != one.given.handle:
            observation = observation._replace(extra={**observation.extra, "job_id": one.handle.job_id})
        observation = _named(transport, observation)
        seen.save(transport, evidence, observation)
        if observation.state.final:  # a job that never started could not do it itself
            with contextlib.suppress(OSError):
                transport.remove(one.job.paths.secrets)
        result[one.given.key] = observation
        if never_starts(own):
            stuck.append(str(one.handle))
    if stuck:  # a job of ours that can never start would stay in the queue for ever
        with contextlib.suppress(SchedulerError):  # the next poll tries again
            cancel(transport, stuck, cluster)


def _ids(group: Sequence[_Known]) -> list[str]:
    """What to ask for: several indices of one array by the array's id."""
    by_job: dict[str, list[str]] = {}
    for one in group:
        by_job.setdefault(one.handle.job_id, []).append(str(one.handle))
    return [found[0] if len(found) == 1 else job_id for job_id, found in by_job.items()]


def _mine(group: Sequence[_Known]) -> bool:
    """Whether these jobs are this user's, by the owner of their experiments."""
    for folder in {os.path.dirname(one.job.paths.dir) for one in group}:
        with contextlib.suppress(OSError):
            if os.stat(folder).st_uid != os.getuid():
                return False
    return True


def cancel(transport: Transport, ids: Sequence[str], cluster: str | None) -> str:
    """scancel; what it complained about. Unknown ids are no complaint."""
    on = ["-M", cluster] if cluster else []
    done = transport.run(["scancel", *on, *ids], env=commands.query(), timeout=60.0)
    return done.stderr.strip() if done.returncode != 0 else ""


def _named(transport: Transport, observation: Observation) -> Observation:
    """With the name of who cancelled it instead of the number, where that is a user of this machine."""
    match = _BY.search(observation.reason) if transport.name == "localhost" else None
    if not match:
        return observation
    import pwd

    with contextlib.suppress(KeyError, OverflowError):
        by = f"{BY}{pwd.getpwuid(int(match[1])).pw_name}"
        return observation._replace(reason=observation.reason[: match.start()] + by)
    return observation


def _own(answer: Answer, one: _Known) -> Row | None:
    row = answer.row(one.handle)
    return row if row and same_job(row, one.job) else None


def _may_have_ended(row: Row | None) -> bool:
    return row is None or row.state == "COMPLETING" or words.state(row.state)[0].final


def _needs_accounting(one: _Known, queue: Answer) -> bool:
    """Whether accounting could say more than what is known by now."""
    row, code = _own(queue, one), one.outcome.exit_code
    unexplained = code is not None and needs_word(one.outcome, cancelled=False)
    if row is None:
        rows = queue.parts(one.handle)
        if not rows or not one.seen:
            return code != 0 or unexplained
        before = one.seen.observation.parts
        return any(part not in rows for part in before) or any(
            _unexplained(row, one) and before.get(part, _NOTHING).exit_code is None for part, row in rows.items()
        )
    if row.state == "COMPLETING":  # squeue's word for it hides how it ended
        return unexplained
    return _unexplained(row, one)


_NOTHING = Observation(State.UNKNOWN)


def _unexplained(row: Row, one: _Known) -> bool:
    """squeue shows an end, but not the exit code, nor who cancelled it."""
    state = words.state(row.state)[0]
    if state is State.CANCELLED:
        return not one.outcome.cancelled and not (one.seen and BY in one.seen.observation.reason)
    return state is State.FAILED and row.reason != "JobLaunchFailure" and one.outcome.exit_code is None


def _without_id(job: Job, outcome: Outcome) -> Observation:
    if outcome.cancelled:
        return Observation(State.CANCELLED, reason="cancelled before it was submitted")
    text = "its submission was interrupted, and the scheduler does not show it" if job.intended else "not submitted"
    return Observation(State.UNSUBMITTED, reason=text)
