"""Arrays and heterogeneous jobs: what their indices and components say together. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from nemo_launch.executors.base import Handle, Job, Observation, State
from nemo_launch.executors.outcome import Outcome
from nemo_launch.executors.slurm import words
from nemo_launch.executors.slurm.merge import Evidence, Seen, merge, same_job
from nemo_launch.executors.slurm.query import Answer, Row

_ID = re.compile(r"([0-9]+)(?:_([0-9]+))?(?:\+([0-9]+))?")
#: What decides the state of the whole: the first that any part has. The end counts only when all have come to it.
_UNDER_WAY = (State.RUNNING, State.UNKNOWN, State.PENDING, State.SUBMITTED)
_OVER = (State.FAILED, State.CANCELLED, State.SUCCEEDED)


def handle_of(part: str, cluster: str | None) -> Handle:
    """The handle of one part by its id."""
    match = _ID.fullmatch(part)
    if not match:
        return Handle(part, cluster)
    index, component = (None if text is None else int(text) for text in match.groups()[1:])
    return Handle(match[1], cluster, index, component)


def ids(job: Job, handle: Handle, queue: Answer, account: Answer, seen: Seen | None) -> list[str]:
    """Ids of the parts that a job is known to have, in their order; empty: it is one job."""
    found = set(seen.observation.parts) if seen else set()
    found |= {part for said in (queue, account) for part, row in said.parts(handle).items() if same_job(row, job)}
    if found and handle.job_id in account.rows and found <= set(account.rows):
        found.add(handle.job_id)  # indices that were never started and are not known one by one, as one row
    return sorted(found, key=_numbers)


def _numbers(part: str) -> list[int]:
    return [int(number) for number in part.replace("+", "_").split("_") if number.isdecimal()]


def merged(e: Evidence, known: Sequence[str], queue: Answer, account: Answer) -> Observation:
    """The truth about the whole, with that about each part."""
    cluster = e.job.handle.cluster if e.job.handle else None
    parts: dict[str, Observation] = {}
    alike: dict[Row | None, Observation] = {}  # thousands of indices may wait for the same reason
    for part in known:
        handle = handle_of(part, cluster)
        rows = (queue.row(handle), account.row(handle))
        row, booked = (said if said and same_job(said, e.job) else None for said in rows)
        before = e.seen.observation.parts.get(part) if e.seen else None
        plain = row and row.state == "PENDING" and not booked and not (before and before.state.final)
        waits = row._replace(job_id="") if row and plain else None
        if waits in alike:
            parts[part] = alike[waits]
            continue
        seen = _seen(e.seen, part)
        outcome = _outcome(e.outcome, handle, row, booked)
        one = merge(e._replace(queue=row, account=booked, seen=seen, outcome=outcome))
        if one.age is not None and not e.controller:  # since when nobody shows it
            one = one._replace(extra={**one.extra, "gone": seen.gone if seen and seen.gone is not None else e.now})
        parts[part] = one
        if waits:
            alike[waits] = one
    return combine(parts)


def _seen(whole: Seen | None, part: str) -> Seen | None:
    one = whole.observation.parts.get(part) if whole else None
    if whole is None or one is None:
        return None
    gone = one.extra.get("gone", whole.gone)
    kept = {key: value for key, value in one.extra.items() if key != "gone"}
    return Seen(one._replace(age=None, extra=kept), whole.at, gone, settled=whole.settled)


def _outcome(outcome: Outcome, handle: Handle, row: Row | None, booked: Row | None) -> Outcome:
    """The record of the batch script, as far as it speaks for this part.

    One script runs for all components of a heterogeneous job: its exit code is theirs (Slurm gives all the same),
    unless one was ended on its own. Of a whole array each index has its own record, and this is none of them.
    """
    if handle.het_part is None:
        return Outcome(cancelled=outcome.cancelled)
    for said in (row, booked):
        state = words.state(said.state)[0] if said else State.UNKNOWN
        if said and state.final and state is not State.SUCCEEDED and said.state != "FAILED":
            return Outcome(attempt=outcome.attempt, started=outcome.started, cancelled=outcome.cancelled)
    return outcome


def combine(parts: Mapping[str, Observation]) -> Observation:
    """What all parts are together.

    It is under way as long as one part is. Then one that failed makes all of it failed.
    """
    seen = list({id(one): one for one in parts.values()}.values())  # those that wait alike are one and the same
    order = _OVER if all(one.state.final for one in seen) else _UNDER_WAY
    state = next((state for state in order if any(one.state is state for one in seen)), State.PENDING)
    decisive = next((one for one in seen if one.state is state), seen[0])
    failed = next((one for one in seen if one.state is State.FAILED and one.exit_code), decisive)
    ages = [one.age for one in seen if one.age is not None]
    return Observation(
        state,
        raw=decisive.raw,
        reason=_reason(parts, seen),
        exit_code=failed.exit_code if state.final else None,
        attempt=max(one.attempt for one in seen),
        nodes=",".join(dict.fromkeys(one.nodes for one in seen if one.nodes)),
        submitted=_least(one.submitted for one in seen),
        started=_least(one.started for one in seen),
        ended=max((one.ended for one in seen if one.ended is not None), default=None) if state.final else None,
        failure=next((one.failure for one in seen if one.failure), None),
        skipped=all(one.skipped for one in seen),
        restarting=any(one.restarting for one in seen),
        estimated_start=_least(one.estimated_start for one in seen),
        age=max(ages) if ages else None,
        parts=dict(parts),
        extra={"ending": True} if any(one.extra.get("ending") for one in seen) else {},
    )


def _reason(parts: Mapping[str, Observation], seen: Sequence[Observation]) -> str:
    """The reason that all share, else how many are in which state; with few parts also which and why."""
    shared = {(one.state, one.reason) for one in seen}
    if len(shared) == 1:
        return seen[0].reason
    return ", ".join(f"{count} {state}" for state, count in Counter(str(one.state) for one in parts.values()).items())


def _least(values: object) -> float | None:
    return min((value for value in values if value is not None), default=None)  # type: ignore[attr-defined]
