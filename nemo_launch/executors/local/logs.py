"""The logs of a task on this machine."""

from __future__ import annotations

import os

from nemo_launch.executors import ranks
from nemo_launch.executors.base import Job, LogSource
from nemo_launch.transport import Transport


def log_sources(transport: Transport, job: Job) -> list[LogSource]:
    """See ``Executor.log_sources``."""
    if job.handle is None:
        return []
    log = job.paths.log(job.handle.job_id)
    sources = [LogSource(log)] if transport.exists(log) else []
    folder = job.paths.ranks(job.handle.job_id, 0)
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    return sources + ranks.sources(folder, names)
