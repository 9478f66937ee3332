"""Ending jobs for sure: marker, scancel, and looking until it is so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from nemo_launch.errors import RecordError, Unreachable
from nemo_launch.executors.base import Handle, Job, Observation, Recovery
from nemo_launch.executors.slurm import poll
from nemo_launch.executors.slurm.recovery import recover
from nemo_launch.transport import Transport

#: How long to look, and how long to wait between two looks (first, longest).
BOUND = 15.0
_PAUSE = (0.1, 1.0)
#: scancel is said again after this long: a controller that was slow or away may not have heard it.
_AGAIN = 3.0


def cancel(
    transport: Transport,
    jobs: Sequence[Job],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Observation]:
    """See ``Executor.cancel``. Jobs that ended before keep their result.

    Raises:
        Unreachable: the controller did not take the order. The markers are there: nothing of it starts anew, and
            cancelling again is safe.
    """
    # First those without an id, before anything that takes time: their launcher may be submitting them right now.
    _mark(transport, [job for job in jobs if not job.handle])
    jobs = [_found(transport, job) for job in jobs]
    result = poll.poll(transport, jobs)
    left = [_moved(job, result) for job in jobs if not _over(job, result)]
    _mark(transport, left)
    deadline, said, pause, trouble = clock() + BOUND, float("-inf"), _PAUSE[0], ""
    while left:
        left = [job if job.handle else _found(transport, job) for job in left]
        if clock() - said >= _AGAIN:
            trouble, said = _scancel(transport, left), clock()
        result.update(poll.poll(transport, left))
        left = [_moved(job, result) for job in left if not _over(job, result)]
        if not left:
            break
        if clock() >= deadline:
            if trouble:
                raise Unreachable(f"the scheduler did not take the cancellation: {trouble} Cancel again later.")
            break
        sleep(pause)
        pause = min(pause * 1.5, _PAUSE[1])
    return result


def _over(job: Job, seen: Mapping[str, Observation]) -> bool:
    """One that may still be on its way to the scheduler is not cancelled for sure before that is known."""
    return seen[job.key].state.final and (job.handle is not None or job.intended is None)


def _moved(job: Job, seen: Mapping[str, Observation]) -> Job:
    """With the id of its follow-up job, where there is one by now."""
    owner = seen[job.key].extra.get("job_id")
    return job._replace(handle=job.handle._replace(job_id=str(owner))) if owner and job.handle else job


def _mark(transport: Transport, jobs: Sequence[Job]) -> None:
    """Leave the marker: a job that starts now reads it and does nothing."""
    for job in jobs:
        try:
            transport.write(job.paths.cancelled, b"")
        except RecordError:
            if not job.handle:  # nothing else would reach it
                raise
            # a full disk keeps no job alive: scancel alone will do, because then no restart can be recorded either


def _found(transport: Transport, job: Job) -> Job:
    """The job with its id, where its submission was recorded only by the scheduler."""
    if job.handle or job.intended is None:
        return job
    answer = recover(transport, [job])[job.key]
    if isinstance(answer, Handle):
        return job._replace(handle=answer)
    return job._replace(intended=None) if answer is Recovery.GONE else job


def _scancel(transport: Transport, jobs: Sequence[Job]) -> str:
    """One command for each cluster; what went wrong."""
    by_cluster: dict[str | None, list[str]] = {}
    for job in jobs:
        if job.handle:
            by_cluster.setdefault(job.handle.cluster, []).append(str(job.handle))
    trouble = []
    for cluster, ids in by_cluster.items():
        try:
            trouble.append(poll.cancel(transport, ids, cluster))
        except Unreachable as error:
            trouble.append(str(error))
    return " ".join(filter(None, trouble))
