"""From what is on disk and in the process table to the truth about a local task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from nemo_launch import identity
from nemo_launch.executors.base import Job, Observation, State
from nemo_launch.executors.local import processes
from nemo_launch.executors.outcome import Outcome

#: Why a task waits whose predecessors are done, where there are more than may run at once.
TURN = "waits for its turn (max_parallel)"


class Facts(NamedTuple):
    """All that is written about one job."""

    job: Job
    state: Mapping[str, Any]
    """The supervisor's state file; empty: there is none."""
    supervisor: Mapping[str, Any]
    """The supervisor's identity; empty: it is not recorded."""
    cancelled: bool
    outcome: Outcome

    @property
    def finished(self) -> bool:
        """The batch script wrote its exit record."""
        return self.outcome.exit_code is not None


def load(data: bytes | None) -> dict[str, Any]:
    """A small state file; empty where there is none, or none that can be read."""
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def judge(facts: Facts, processes_live: bool | None = None) -> Observation | None:
    """The truth. None: its supervisor is dead, so look whether its processes live, read everything again, and ask
    with what was seen."""
    said, word, again = facts.state, facts.state.get("state"), bool(facts.state.get("restart"))
    if word == "skipped":
        reason = f"not started: {said.get('blame')} did not succeed"
        return _observation(facts, State.CANCELLED, reason, skipped=True)
    if word == "cancelled":
        return _observation(facts, State.CANCELLED, "cancelled" if again else "cancelled before it started")
    if word == "ended":
        return _ended(facts)
    ending = said.get("cause")  # TERM was sent: not over before all processes are gone
    if facts.finished and not ending and not said.get("decides"):  # else the supervisor may start it again
        return _ended(facts)
    alive = identity.alive(facts.supervisor) if facts.supervisor else False
    if alive is None:
        where = str(facts.supervisor.get("host"))
        if facts.supervisor.get("boot") == identity.boot_id():
            where = f"{where} in another container"
        reason = f"runs on {where}: whether it still does can only be seen there"
        return _ended(facts) if facts.finished else _observation(facts, State.UNKNOWN, reason)
    if alive:
        if word == "waiting" and again:
            why = "it reached its time limit" if said.get("why") == "timeout" else "it failed"
            seen = _observation(facts, State.PENDING, TURN if said.get("turns") else f"starting again, because {why}")
            return seen._replace(restarting=True)
        if word == "waiting":
            return _observation(facts, State.PENDING, TURN if said.get("turns") else "starting")
        text = {"cancelled": "is being cancelled", "timeout": "reached its time limit and is being ended"}
        return _observation(facts, State.RUNNING, text.get(str(ending), "ending" if facts.finished else ""))
    return None if processes_live is None else _unsupervised(facts, processes_live)


def running_processes(facts: Facts, now: processes.Snapshot) -> set[processes.Process]:
    """The task's processes on this machine."""
    here = facts.state.get("boot") in (None, identity.boot_id())
    script = facts.state if here else {}
    return now.members(facts.job.paths.job_dir, script.get("pid"), script.get("start"))


def _unsupervised(facts: Facts, processes_live: bool) -> Observation:
    """The supervisor is dead, so nobody would have written down the rest."""
    if processes_live:
        return _observation(facts, State.RUNNING, "its supervisor was killed; the task goes on without it")
    if facts.finished:
        return _ended(facts)
    if facts.cancelled:
        return _observation(facts, State.CANCELLED, "cancelled")
    restarted = facts.supervisor.get("boot", "") not in ("", identity.boot_id())
    how = "the machine restarted" if restarted else "its supervisor was killed"
    if facts.state.get("state") == "running" or facts.outcome.started is not None:
        if restarted:
            return _observation(facts, State.FAILED, "the machine restarted while it ran")
        return _observation(facts, State.FAILED, "ended without an exit code (killed), as did its supervisor")
    if not facts.state and not facts.supervisor:
        return _observation(facts, State.UNKNOWN, f"there is no readable {facts.job.paths.state}")
    when = "started again" if facts.state.get("restart") else "started"
    return _observation(facts, State.FAILED, f"never {when}: {how} before its turn came")


def _ended(facts: Facts) -> Observation:
    said, cause = facts.state, facts.state.get("cause")
    code = facts.outcome.exit_code if facts.finished else said.get("code")
    reason = said.get("reason") or facts.outcome.reason
    if "cancelled" in (cause, facts.outcome.cause):
        return _observation(facts, State.CANCELLED, reason or "cancelled", code)
    if cause is not None or facts.outcome.cause == "signal":
        code = code or None  # a payload that ends well when it is told to is no failed exit code
    if cause == "timeout":
        return _observation(facts, State.FAILED, "reached its time limit", code)
    if code == 0:
        return _observation(facts, State.SUCCEEDED, reason, code)
    if not reason and facts.outcome.signal and not facts.outcome.failure:
        reason = f"ended by {facts.outcome.signal} from outside" + (f", exit code {code}" if code else "")
    if code is None and not reason:
        reason = f"killed by {said['signal']}" if "signal" in said else "ended without an exit code"
    if facts.outcome.failure and not reason:
        reason = str(facts.outcome.failure)
    return _observation(facts, State.FAILED, reason or f"exit code {code}", code)


def _observation(
    facts: Facts, state: State, reason: str = "", code: int | None = None, skipped: bool = False
) -> Observation:
    said, outcome = facts.state, facts.outcome
    began = outcome.started if outcome.started is not None else said.get("started")
    ended = outcome.ended if outcome.ended is not None else said.get("ended")
    raw = str(said.get("state", ""))
    if state.final and raw == "running":  # the exit record is there, and the supervisor about to say so
        raw = "ended"
    return Observation(
        state,
        raw=raw,
        reason=reason,
        exit_code=code,
        attempt=outcome.attempt,
        nodes=str(facts.supervisor.get("host", "")),
        submitted=facts.job.submitted or facts.job.intended,
        started=began,
        ended=ended if state.final else None,
        failure=outcome.failure if state.final else None,
        skipped=skipped,
    )
