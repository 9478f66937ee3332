"""From what squeue, sacct and the job itself say to the truth about one job. Pure: no clock, no command, no file."""

from __future__ import annotations

from typing import NamedTuple

from nemo_launch.executors.base import Job, Observation, State
from nemo_launch.executors.outcome import Outcome
from nemo_launch.executors.slurm import words
from nemo_launch.executors.slurm.query import Row

#: How long a job may be unknown to a scheduler without accounting before its exit record is no longer waited for.
LOST_AFTER = 180.0
#: What Slurm wrote into a job's log, as its state: for when nobody knows the job any more.
_IN_THE_LOG = {"cancelled": "CANCELLED", "timeout": "TIMEOUT", "preempted": "PREEMPTED", "node_fail": "NODE_FAIL"}
#: Between what happened and who did it.
BY = " by "
#: Clocks of nodes and controller differ by this much at most.
SKEW = 60.0
#: Exit code of a batch script that does not find its own folder (runner/skeleton.sh); then its records do not arrive.
NO_FOLDER = 73


class Seen(NamedTuple):
    """What was last known of a job, and when."""

    observation: Observation
    at: float
    """When it was last known to be true."""
    gone: float | None = None
    """Since when the scheduler does not know the job."""
    settled: bool = True
    """A final state that nothing can change any more; false: the job's own exit record may still come."""


class Evidence(NamedTuple):
    """All that is known about one job at one moment."""

    job: Job
    now: float
    outcome: Outcome
    queue: Row | None = None
    """Its row of squeue, when that is this job's (see ``same_job``)."""
    account: Row | None = None
    """Its row of sacct."""
    controller: str = ""
    """Why the controller gave no answer; empty: it answered."""
    accounting: str = ""
    """Why accounting gave no answer; empty: it answered."""
    no_accounting: bool = False
    """The site keeps no accounting."""
    seen: Seen | None = None
    cancelled: bool = False
    """The user cancelled it: the marker is there."""
    doomed: bool | None = None
    """A task that it depends on did not succeed; None: not known, or not yet."""


def same_job(row: Row, job: Job) -> bool:
    """Whether this row is that job: ids restart when a controller is set up anew, the script's path does not.

    The path alone is sure, also where the clocks of launcher and controller differ; without it the time must do.
    """
    if row.command:  # squeue shows the script, sacct the line that submitted it
        return row.command == job.paths.script or row.command.endswith(f" {job.paths.script}")
    return not (job.intended and row.submitted and row.submitted < job.intended - SKEW)


def never_starts(row: Row | None) -> bool:
    """Whether a job pends for ever, because what it depends on did not succeed."""
    return row is not None and row.state == "PENDING" and row.reason == words.NEVER


def merge(e: Evidence) -> Observation:
    """The truth. The order: the job's own record, the controller, accounting, what was known before.

    What was once told as the end stays it: whoever acted on it cannot take that back.
    """
    now, before = _judge(e), e.seen.observation if e.seen else None
    if before is None or not before.state.final:
        return now
    return before if before.state is not now.state or _says_more(before, now) else now


def _says_more(before: Observation, now: Observation) -> bool:
    """Whether the end was explained better before: accounting is asked only until it has told the exit code, or who."""
    longer = len(before.reason) > len(now.reason) and before.reason.startswith(now.reason)
    return now.exit_code is None and (before.exit_code is not None or longer)


def needs_word(outcome: Outcome, cancelled: bool) -> bool:
    """Whether the record says that a signal ended the job, which leaves open who sent it and why.

    Only the scheduler knows: cancelled from outside, out of time or memory, preempted. Its word also decides where the
    work came to its own end (code 0) just as the signal came: COMPLETED says that nothing was cut off.
    """
    return outcome.cause != "cancelled" and _signalled(outcome) and not cancelled


def _judge(e: Evidence) -> Observation:
    final = [row for row in (e.queue, e.account) if row and _is_final(e, row)]
    row = final[0] if final else e.queue
    if e.outcome.restarting and e.outcome.exit_code is not None and not final and not _runs_again(e):
        if e.queue is None:
            return _lost(e)
        ending = _observation(e, row, State.RUNNING, f"ending, to be started again ({e.outcome.restarting})", None)
        return ending._replace(restarting=True, attempt=ending.attempt + 1)
    if e.outcome.exit_code is not None and not _runs_again(e):
        if final or not needs_word(e.outcome, e.cancelled) or _no_word_comes(e):
            return _recorded(e, row)
        if e.queue:  # it is about to say which
            return _observation(e, row, State.RUNNING, "ending", None)._replace(extra={"ending": True})
        return _lost(e)
    if e.queue:
        return _shown(e, e.queue)
    if row:
        return _shown(e, row)
    return _lost(e)


def _is_final(e: Evidence, row: Row) -> bool:
    """Whether this row tells the end. The end of one run is not the job's where it may have been put back meanwhile.

    Then only the controller knows, and where it answers it shows the job.
    """
    state = words.state(row.state)[0]
    put_back = row.state.split(" ")[0] in words.MAY_START_AGAIN and (e.controller or e.queue is not None)
    restarting = e.outcome.restarting and state is State.FAILED and e.queue is not None
    return state.final and not (row is e.account and row is not e.queue and (put_back or restarting))


def _no_word_comes(e: Evidence) -> bool:
    """Everybody was asked, and nobody will say any more how the scheduler saw the end."""
    if e.controller or e.queue:
        return False
    long_ago = e.now - (e.outcome.ended if e.outcome.ended is not None else e.now) >= LOST_AFTER
    return e.no_accounting or (long_ago and not e.accounting)


def _runs_again(e: Evidence) -> bool:
    """The exit record is of an earlier run: the scheduler has started the job again, or is about to."""
    row = e.queue
    if row is None:
        return False
    if words.state(row.state)[0] is State.PENDING:
        return True
    later = row.started is not None and e.outcome.ended is not None and row.started > e.outcome.ended + 1
    return row.state == "RUNNING" and later


def _recorded(e: Evidence, row: Row | None) -> Observation:
    """The batch script came to its end and wrote how."""
    code, said = e.outcome.exit_code, _word(e, row)
    reason = e.outcome.reason
    if code == 0 and not _signalled(e.outcome):  # whatever happened to the job afterwards, the work was done
        return _observation(e, row, State.SUCCEEDED, "", code)
    if said[0] is State.CANCELLED or _was_cancelled(e, said[0]):
        return _observation(e, row, State.CANCELLED, reason or _cancelled(e), code)
    if code == 0 and said[0] is State.SUCCEEDED:
        return _observation(e, row, State.SUCCEEDED, "", code)
    code = code or None  # a payload that ends well when it is told to is no failed exit code
    if said[0] is State.FAILED:
        reason = said[1] or reason
    if not reason and e.outcome.cause == "signal":
        reason = f"ended by {e.outcome.signal}"
    if not reason:
        reason = str(e.outcome.failure) if e.outcome.failure else f"exit code {code}"
    return _observation(e, row, State.FAILED, reason, code)


def _was_cancelled(e: Evidence, said: State) -> bool:
    """Without the scheduler's word for it. A job that failed by itself before the cancellation keeps its failure."""
    return e.outcome.cause == "cancelled" or (e.cancelled and _signalled(e.outcome) and said is not State.FAILED)


def _signalled(outcome: Outcome) -> bool:
    return outcome.cause in ("signal", "cancelled") or (outcome.cause != "memory" and (outcome.exit_code or 0) > 128)


def _word(e: Evidence, row: Row | None) -> tuple[State, str]:
    """The scheduler's word for it; of memory the job knows more."""
    raw = row.state if row else _IN_THE_LOG.get(e.outcome.word, "") if e.outcome.cause == "signal" else ""
    state, text = words.state(raw) if raw else (State.UNKNOWN, "")
    if e.outcome.cause == "memory":
        return state, e.outcome.reason
    if text == words.OUT_OF_MEMORY and e.outcome.memory:
        return state, f"ran out of memory: {e.outcome.memory}"
    return state, text


def _shown(e: Evidence, row: Row) -> Observation:
    """There is no record of its end; the scheduler shows the job."""
    state, text = _word(e, row)
    if never_starts(row) or (state is State.CANCELLED and _skipped(e, row)):
        return _observation(e, row, State.CANCELLED, words.reason(words.NEVER), None)._replace(skipped=True)
    if state is State.CANCELLED and not row.nodes and e.outcome.started is None:
        return _observation(e, row, state, _cancelled(e, " before it started"), None)
    if state is State.CANCELLED:
        return _observation(e, row, state, _cancelled(e), None)
    if row.state == "COMPLETING" and e.cancelled:
        return _observation(e, row, State.CANCELLED, "cancelled", None)
    if state is State.PENDING:
        waits = text or words.reason(row.reason)
        again = e.outcome.started is not None or e.outcome.before > 0
        attempt = e.outcome.before + (e.outcome.attempt + 1 if e.outcome.started is not None else 0)
        start = row.started if row.started and row.started > e.now else None
        seen = _observation(e, row, state, waits, None)
        return seen._replace(restarting=again, attempt=attempt, estimated_start=start)
    if state is State.SUCCEEDED:
        return _observation(e, row, state, "", 0)
    if state is not State.FAILED:
        return _observation(e, row, state, text, None)
    code, why = _code(e.account or row)
    explained = words.reason(row.reason)
    if code == NO_FOLDER and e.outcome.started is None and e.outcome.exit_code is None:
        return _observation(e, row, state, words.UNSEEN, code)
    if (e.account and e.account.signal == 53) or row.reason == "JobLaunchFailure":
        return _observation(e, row, state, words.REASONS["JobLaunchFailure"], None)
    return _observation(e, row, state, text or explained or why, code)


def _cancelled(e: Evidence, when: str = "") -> str:
    """By whom, where it was not by ``cancel`` of this launcher and accounting tells."""
    said = [words.state(row.state)[1] for row in (e.account, e.queue) if row and not e.cancelled]
    who = next((text.removeprefix("cancelled") for text in said if BY in text), "")
    return f"cancelled{when}{who}"


def _skipped(e: Evidence, row: Row) -> bool:
    """Cancelled by Slurm itself because of its dependency, before it started.

    Slurm has one word for that and for a cancellation of what waits: then the tasks before it decide.
    """
    if row.nodes:
        return False
    return row.reason == words.NEVER or (row.reason == "Dependency" and not e.cancelled and e.doomed is True)


def undecided(e: Evidence) -> bool:
    """Whether that is open, because the tasks before it were not asked for or have not ended."""
    row = e.queue or e.account
    return e.doomed is None and not e.cancelled and row is not None and row.reason == "Dependency" and not row.nodes


def _code(row: Row) -> tuple[int | None, str]:
    if row.signal:
        return 128 + row.signal, f"killed by signal {row.signal}"
    if row.exit_code is None:
        return None, "ended without an exit code"
    return row.exit_code, f"exit code {row.exit_code}"


def _lost(e: Evidence) -> Observation:
    """Nobody shows the job now. Never finished, and failed only where nobody will ever say more."""
    seen = e.seen.observation if e.seen else None
    if seen is None:
        state = State.RUNNING if e.outcome.started is not None else State.SUBMITTED
        seen = _observation(e, None, state, "", None)
    since = e.seen.at if e.seen else (e.job.submitted or e.job.intended or e.now)
    age = max(0.0, e.now - since)
    if seen.state.final:  # the scheduler told the end before it forgot the job
        return seen
    if e.controller:
        return seen._replace(reason=f"the scheduler does not answer: {_line(e.controller)}", age=age)
    gone = e.seen.gone if e.seen and e.seen.gone is not None else e.now
    if e.no_accounting and e.now - gone >= LOST_AFTER:
        if e.cancelled:
            return _observation(e, None, State.CANCELLED, "cancelled", None)
        never = "" if e.outcome.started is not None else "; nothing shows that it ever started"
        text = f"ended without an exit code (killed by the scheduler or with its node){never}"
        return _observation(e, None, State.FAILED, text, None)
    if e.no_accounting:
        text = "no longer known to the scheduler; waiting for its exit record"
    elif e.accounting:
        text = f"no longer in the queue, and accounting does not answer: {_line(e.accounting)}"
    elif e.now - gone >= LOST_AFTER:
        return seen._replace(state=State.UNKNOWN, reason="neither the queue nor accounting knows it", age=age)
    else:
        text = "no longer in the queue and not yet in accounting"
    return seen._replace(reason=text, age=age)


def _observation(e: Evidence, row: Row | None, state: State, reason: str, code: int | None) -> Observation:
    """What record and row say together; the record knows the run itself better."""
    outcome = e.outcome
    started = outcome.started if outcome.started is not None else (row.started if row else None)
    ended = outcome.ended if outcome.ended is not None else (row.ended if row else None)
    never_ran = state in (State.PENDING, State.SUBMITTED) or (state is State.CANCELLED and row and not row.nodes)
    if never_ran and outcome.started is None:
        started = None
    return Observation(
        state,
        raw=row.state if row else "",
        reason=reason,
        exit_code=code,
        attempt=outcome.before + outcome.attempt,
        nodes=(row.nodes if row else "") or outcome.nodes,
        submitted=(row.submitted if row else None) or e.job.submitted or e.job.intended,
        started=started,
        ended=ended if state.final else None,
        failure=outcome.failure if state.final else None,
    )


def _line(text: str) -> str:
    return " ".join(text.split())
