"""Reads everything that is written about local tasks and says what became of them. The supervisor uses it, too."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence

from nemo_launch import identity, records
from nemo_launch.executors.base import Handle, Job, Observation, Recovery, State
from nemo_launch.executors.local import processes
from nemo_launch.executors.local.observe import Facts, judge, load, running_processes
from nemo_launch.executors.outcome import Outcome, read_outcomes
from nemo_launch.transport import Transport


def poll(transport: Transport, jobs: Sequence[Job]) -> dict[str, Observation]:
    """See ``Executor.poll``."""
    seen: dict[str, Observation] = {}
    unsure: list[Job] = []
    known = facts(transport, jobs)
    for job in jobs:
        if job.handle is None:
            seen[job.key] = Observation(State.UNSUBMITTED, reason="not submitted yet")
        elif (found := judge(known[job.key])) is not None:
            seen[job.key] = found
        else:
            unsure.append(job)
    # Their supervisor is dead. First whether they live and then what is written: a process that is gone has written
    # its last word by now.
    now = processes.Snapshot() if unsure else None
    alive = {job.key: bool(running_processes(known[job.key], now)) for job in unsure if now}
    known |= facts(transport, unsure)
    for job in unsure:
        if (found := judge(known[job.key], alive[job.key])) is not None:
            seen[job.key] = found
    return {job.key: _waits_for(job, jobs, seen) for job in jobs}


def recover(transport: Transport, jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
    """See ``Executor.recover``. The tag is the claim, which the supervisor makes before it starts anything."""
    answers: dict[str, Handle | Recovery] = {}
    for job in jobs:
        maybe = _may_still_start(job)  # before the claim is looked for: it may be made meanwhile
        owner = transport.readlinks([job.paths.claim]).get(job.paths.claim, "")
        if owner.startswith("job-"):
            answers[job.key] = Handle(owner.removeprefix("job-"))
        else:
            answers[job.key] = Recovery.IN_FLIGHT if maybe else Recovery.GONE
    return answers


def facts(transport: Transport, jobs: Sequence[Job]) -> dict[str, Facts]:
    """Everything that is written about them, the states first: what is decided from them cannot be undone later."""
    known = [job for job in jobs if job.handle is not None]
    if not known:
        return {}
    files = transport.read_matching(
        dict.fromkeys(glob.escape(path) for job in known for path in (job.paths.state, _supervisor(job)))
    )
    outcomes = read_outcomes(transport, known)
    found = {}
    for job in known:
        outcome = outcomes.get(job.key) or Outcome()
        states = load(files.get(job.paths.state)), load(files.get(_supervisor(job)))
        restart = states[0].get("restart", 0)
        if restart > outcome.attempt:  # what is written is of the attempt before
            outcome = Outcome(attempt=restart, owner=outcome.owner, cancelled=outcome.cancelled)
        found[job.key] = Facts(job, *states, outcome.cancelled, outcome)
    return found


def _supervisor(job: Job) -> str:
    return job.paths.supervisor(job.handle.job_id if job.handle else "")


def _may_still_start(job: Job) -> bool:
    """Whether the launcher that recorded the intent, or a supervisor without tasks, is still at it."""
    intent = records.read_json(job.paths.intent) or {}
    starters = [records.read_json(path) or {} for path in glob.glob(job.paths.patterns().supervisor())]
    if intent.get("pid") != os.getpid():
        starters.append(intent)
    return any(identity.alive(starter) is not False for starter in starters if "pid" in starter)


def _waits_for(job: Job, jobs: Sequence[Job], seen: Mapping[str, Observation]) -> Observation:
    """A pending task's reason, which lies in the others."""
    mine = seen[job.key]
    if mine.state is not State.PENDING:
        return mine
    home = os.path.dirname(job.paths.dir)
    near = {other.name: seen[other.key].state for other in jobs if os.path.dirname(other.paths.dir) == home}
    before = [name for name in job.after if near.get(name) is not State.SUCCEEDED]
    return mine._replace(reason=f"waits for {', '.join(before)}") if before else mine
