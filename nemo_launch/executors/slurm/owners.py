"""Of two jobs for one submission the one that claimed it: its id is the one that counts."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_launch.executors.base import Handle, Job
from nemo_launch.transport import Transport


def owned(transport: Transport, jobs: Sequence[Job]) -> list[Job]:
    """Each job with the id of its owner, where that is another or none was recorded; one question for all."""
    claims = transport.readlinks(job.paths.claim for job in jobs) if jobs else {}
    return [_owned(job, claims.get(job.paths.claim, "").removeprefix("job-")) for job in jobs]


def _owned(job: Job, owner: str) -> Job:
    handle = job.handle
    if not owner or (handle is not None and (handle.array_index is not None or handle.job_id == owner)):
        return job
    return job._replace(handle=Handle(owner, handle.cluster if handle else None))
