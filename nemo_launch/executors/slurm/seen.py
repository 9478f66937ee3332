"""What was last known of a job, kept in its folder for when the scheduler does not answer or has forgotten it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from nemo_launch import records
from nemo_launch.errors import RecordError
from nemo_launch.executors.base import Failure, Job, Observation, State
from nemo_launch.executors.slurm.merge import Evidence, Seen, undecided

#: An unchanged state is written again after this long, so that its age is right without a write at every question.
_REFRESH = 60.0
#: A final state without an exit record is looked at again for this long: the record may still be on its way (NFS).
_SETTLED = 60.0


def load(job: Job) -> Seen | None:
    """What the job's folder says; None: nothing (readable)."""
    try:
        value: dict[str, Any] = records.read_json(job.paths.seen) or {}
        fields = value["observation"]
        failure = Failure(**fields.pop("failure")) if fields.get("failure") else None
        observation = Observation(**{**fields, "state": State(fields["state"]), "failure": failure})
        return Seen(observation, value["at"], value.get("gone"), value.get("settled", True))
    except (RecordError, ValueError, KeyError, TypeError, AttributeError):
        return None  # it is a help, not a record: without it the scheduler's answer counts


def save(evidence: Evidence, now_known: Observation) -> None:
    """Keep what is worth keeping; a folder that cannot be written (another user's) is no error."""
    new = _worth(evidence, now_known)
    if new is None:
        return
    value = {"at": new.at, "gone": new.gone, "settled": new.settled, "observation": dataclasses.asdict(new.observation)}
    with contextlib.suppress(RecordError):
        records.write_json(evidence.job.paths.seen, value, sync=False)  # losing it in a crash costs nothing


def _worth(e: Evidence, observation: Observation) -> Seen | None:
    old = e.seen
    if observation.age is not None:  # nobody showed it
        if not e.controller and (old is None or old.gone is None):  # it is gone from now on
            known = old.observation if old else dataclasses.replace(observation, age=None)
            return Seen(known, old.at if old else (e.job.submitted or e.now), e.now)
        return None
    if observation.state is State.UNKNOWN:
        return None
    if observation.state.final:
        ended = observation.ended or e.now
        settled = e.outcome.exit_code is not None or observation.skipped or e.now - ended > _SETTLED
        settled = settled and not undecided(e)
        if settled or old is None or old.observation != observation:
            return Seen(observation, e.now, settled=settled)
        return None
    same = old is not None and old.gone is None and old.observation == observation
    return None if same and old and e.now - old.at < _REFRESH else Seen(observation, e.now)
