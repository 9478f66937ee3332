"""Ending local tasks for sure: through their supervisor, or directly where that is gone."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence

from nemo_launch import identity, records
from nemo_launch.errors import RecordError
from nemo_launch.executors.base import Handle, Job, Observation, Recovery, State
from nemo_launch.executors.local import processes
from nemo_launch.executors.local.loop import PATIENCE
from nemo_launch.executors.local.observe import Facts, running_processes
from nemo_launch.executors.local.polling import facts, poll, recover
from nemo_launch.transport import Transport

#: Added to the grace before an end that was asked for is no longer waited for.
SLACK_SECONDS = 35.0
#: A supervisor that has done nothing this long after the grace (it may be stopped) is not waited for.
_STUCK_SECONDS = 5.0
#: Nothing more to wait for: it has ended, or whether it has cannot be seen from here.
OVER = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.UNKNOWN, State.UNSUBMITTED)


def end(transport: Transport, jobs: Sequence[Job], how: str, grace: float | None) -> dict[str, Observation]:
    """See ``Executor.cancel``; ``grace`` in seconds is what is between TERM and KILL, None: no KILL and no waiting."""
    recovered = recover(transport, [job for job in jobs if job.handle is None and job.intended is not None])
    jobs = [job._replace(handle=found) if isinstance(found := recovered.get(job.key), Handle) else job for job in jobs]
    seen = poll(transport, jobs)
    for job in jobs:
        if recovered.get(job.key) is Recovery.IN_FLIGHT:  # should it come to life, it finds the marker
            mark(job, how)
    live = [job for job in jobs if job.handle is not None and not seen[job.key].state.final]
    deaf = ask(facts(transport, live).values(), how)
    deadline, pause = time.monotonic() + (grace or 0.0) + SLACK_SECONDS, 0.02
    while live:
        known = list(facts(transport, live).values())
        stuck = grace is not None and time.monotonic() > deadline - SLACK_SECONDS + _STUCK_SECONDS
        direct = [each for each in known if unsupervised(each, stuck or each.job.key in deaf)]
        end_directly(direct, how, grace or 0.0)
        seen |= poll(transport, live)
        live = [job for job in live if seen[job.key].state not in OVER]
        if grace is None or time.monotonic() > deadline:
            break
        time.sleep(pause if live else 0)
        pause = min(2 * pause, 0.5)
    return seen


def ask(facts: Iterable[Facts], how: str) -> set[str]:
    """Leave the markers, then wake the supervisors. ``how``: cancel, terminate (TERM only), kill.

    Returns:
        Keys of the jobs whose marker could not be written: a full disk keeps no task alive.
    """
    supervisors: dict[str, Mapping[str, object]] = {}
    deaf = set()
    for each in facts:
        try:
            mark(each.job, how)
        except RecordError:
            deaf.add(each.job.key)
        if each.job.handle:
            supervisors[each.job.paths.supervisor(each.job.handle.job_id)] = each.supervisor
    for known in supervisors.values():
        if known and identity.alive(known):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(str(known["pid"])), signal.SIGUSR1)
    return deaf


def mark(job: Job, how: str) -> None:
    """Leave the marker: whoever finds it starts nothing any more."""
    records.write_json(job.paths.cancelled, {"how": how, "time": time.time(), **identity.mine()})


def unsupervised(facts: Facts, stuck: bool) -> bool:
    """Whether its supervisor on this machine is dead, or (``stuck``) does not do what it was asked to."""
    return not facts.supervisor or identity.alive(facts.supervisor) in ((False, True) if stuck else (False,))


def end_directly(facts: Sequence[Facts], how: str, grace: float) -> None:
    """What the supervisor would do: TERM, after the grace KILL, and write down the end."""
    if not facts:
        return
    patience = PATIENCE.get(how, grace)
    now = processes.Snapshot()
    for each in facts:
        alive = running_processes(each, now)
        script = {process for process in alive if process.pid == each.state.get("pid")}
        processes.send(script or alive, signal.SIGTERM)  # the batch script passes it on, once
    if patience is None:
        return
    deadline = time.monotonic() + patience
    left = list(facts)
    while left:
        now = processes.Snapshot()
        for each in list(left):
            alive = running_processes(each, now)
            if not alive:
                left.remove(each)
                _write_end(each)
            elif time.monotonic() >= deadline:
                processes.send(alive, signal.SIGKILL)
        if time.monotonic() > deadline + SLACK_SECONDS:
            return
        time.sleep(0.05 if left else 0)


def _write_end(facts: Facts) -> None:
    paths = facts.job.paths
    if glob.glob(paths.patterns().exit_record()):
        return  # the batch script's own word counts: it may have ended well in time
    waiting = facts.state.get("state") == "waiting" and facts.outcome.started is None
    end = {"state": "cancelled" if waiting else "ended", "cause": "cancelled", "ended": time.time()}
    with contextlib.suppress(RecordError):
        records.write_json(paths.state, {**facts.state, **end})
