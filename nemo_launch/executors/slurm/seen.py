"""What was last known of a job, kept in its folder for when the scheduler does not answer or has forgotten it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from nemo_launch.errors import RecordError
from nemo_launch.executors.base import Failure, Job, Observation, State
from nemo_launch.executors.slurm.merge import BY, Evidence, Seen, undecided
from nemo_launch.transport import Transport

#: An unchanged state is written again after this long, so that its age is right without a write at every question.
_REFRESH = 60.0
#: A final state without an exit record is looked at again for this long: the record may still be on its way (NFS).
_SETTLED = 60.0

_DEFAULTS = Observation._field_defaults


def load(transport: Transport, jobs: Sequence[Job]) -> dict[str, Seen | None]:
    """What the jobs' folders say, with one question for all; None: nothing (readable)."""
    files = transport.read_matching(job.paths.patterns().seen for job in jobs)
    return {job.key: _seen(files.get(job.paths.seen, b"")) for job in jobs}


def _seen(data: bytes) -> Seen | None:
    try:
        value: dict[str, Any] = json.loads(data)
        return Seen(_observation(value["observation"]), value["at"], value.get("gone"), value.get("settled", True))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # it is a help, not a record: without it the scheduler's answer counts


def _observation(fields: dict[str, Any]) -> Observation:
    failure = Failure(**fields["failure"]) if fields.get("failure") else None
    alike = ((_observation(group["are"]), group["ids"]) for group in fields.get("parts", ()))
    parts = {part: one for one, ids in alike for part in ids}
    return Observation(**{**fields, "state": State(fields["state"]), "failure": failure, "parts": parts})


def _plain(observation: Observation) -> dict[str, Any]:
    """Its fields, without those that say nothing, and once for all parts that are alike: an array has thousands."""
    said = {name: value for name, value in observation._asdict().items() if value != _DEFAULTS.get(name, observation)}
    if observation.failure:
        said["failure"] = observation.failure._asdict()
    if observation.parts:
        alike: dict[int, tuple[Observation, list[str]]] = {}
        for name, part in observation.parts.items():
            alike.setdefault(id(part), (part, []))[1].append(name)
        said["parts"] = [{"are": _plain(part), "ids": ids} for part, ids in alike.values()]
    return said


def save(transport: Transport, evidence: Evidence, now_known: Observation) -> None:
    """Keep what is worth keeping; a folder that cannot be written (another user's) is no error."""
    new = _worth(evidence, now_known)
    if new is None:
        return
    value = {"at": new.at, "gone": new.gone, "settled": new.settled, "observation": _plain(new.observation)}
    with contextlib.suppress(RecordError):  # losing it in a crash costs nothing
        transport.write(evidence.job.paths.seen, json.dumps(value).encode(), sync=False)


def _worth(e: Evidence, observation: Observation) -> Seen | None:
    old = e.seen
    if observation.age is not None:  # nobody showed it
        if not e.controller and (old is None or old.gone is None):  # it is gone from now on
            known = old.observation if old else observation._replace(age=None)
            return Seen(known, old.at if old else (e.job.submitted or e.now), e.now)
        return None
    if observation.state is State.UNKNOWN:
        return None
    if observation.state.final:
        ended = observation.ended or e.now
        settled = e.outcome.exit_code is not None or observation.skipped
        settled = (settled and not _by_whom(e, observation)) or e.now - ended > _SETTLED
        settled = settled and not undecided(e)
        if settled or old is None or old.observation != observation:
            return Seen(observation, e.now, settled=settled)
        return None
    same = old is not None and old.gone is None and old.observation == observation
    return None if same and old and e.now - old.at < _REFRESH else Seen(observation, e.now)


def _by_whom(e: Evidence, observation: Observation) -> bool:
    """Whether accounting may still tell who cancelled it."""
    open_end = observation.state is State.CANCELLED and not observation.skipped and not e.no_accounting
    return open_end and not e.cancelled and BY not in observation.reason
