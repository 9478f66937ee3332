"""Tasks that did not run because one before them did not succeed. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from nemo_launch.executors.base import Job, Observation, State
from nemo_launch.executors.slurm.merge import SKEW

Known = Mapping[str, Observation]


def blame(job: Job, jobs: Sequence[Job], known: Known) -> Observation:
    """A skipped task with the name of what did not succeed before it, as far as it was asked for."""
    before = _before(job, jobs, known)
    ended = [name for name in job.after if name in before and before[name].state in (State.FAILED, State.CANCELLED)]
    names = ended or list(job.after) or ["a job that it depends on"]
    blamed = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return known[job.key]._replace(reason=f"not started: {blamed} did not succeed")


def doomed(job: Job, cancelled: float | None, jobs: Sequence[Job], known: Known) -> bool | None:
    """Whether a task that it depends on had not succeeded when it was cancelled; None: that is not known (yet)."""
    if not job.after:
        return False
    before = _before(job, jobs, known)
    for one in before.values():
        later = cancelled is not None and one.ended is not None and one.ended > cancelled + SKEW
        if one.state in (State.FAILED, State.CANCELLED) and not later:
            return True
    return False if all(name in before and before[name].state.final for name in job.after) else None


def _before(job: Job, jobs: Sequence[Job], known: Known) -> dict[str, Observation]:
    """The tasks that it depends on, as far as they were asked for."""
    if not job.after:
        return {}
    folder = os.path.dirname(job.paths.dir)
    same = (o for o in jobs if o.name in job.after and os.path.dirname(o.paths.dir) == folder)
    return {o.name: known[o.key] for o in same if o.key in known}
