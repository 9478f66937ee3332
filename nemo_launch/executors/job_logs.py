"""The logs of a job and of those that it went on for: each attempt's whole log, and those of its ranks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from nemo_launch.executors.base import Handle, Job, LogSource
from nemo_launch.executors.outcome import Attempt, read_attempts
from nemo_launch.transport import Transport

_RANK = re.compile(r"ranks-(.+)-([0-9]+)/rank-([0-9]+)\.log")


def log_sources(transport: Transport, job: Job) -> list[LogSource]:
    """See ``Executor.log_sources``: with one look at the job's records, and one at which logs there are."""
    owner, attempts = read_attempts(transport, job)
    if owner and (job.handle is None or (job.handle.array_index is None and job.handle.job_id != owner)):
        job = job._replace(handle=Handle(owner))
    if job.handle is None:
        return []
    if not attempts:  # it wrote nothing itself, but the scheduler may have complained there
        attempts = [Attempt(0, str(job.handle), 0, 0)]
    folder = job.paths.job_dir
    listed = transport.run(["find", folder, "-mindepth", "1", "-maxdepth", "2", "-name", "*.log", "-printf", "%P\\n"])
    names = set(listed.stdout.split("\n"))
    ranks = _ranks(names)
    sources = []
    for one in reversed(attempts):
        whole = job.paths.log(one.job_id if len(attempts) > 1 else str(job.handle))
        if os.path.basename(whole) in names:
            sources.append(LogSource(whole, attempt=one.number, begin=one.log_from))
        for rank in ranks.get((one.job_id, one.restart), ()):
            path = os.path.join(job.paths.ranks(one.job_id, one.restart), f"rank-{rank}.log")
            sources.append(LogSource(path, rank, attempt=one.number))
    return sources


def _ranks(names: Iterable[str]) -> Mapping[tuple[str, int], list[int]]:
    """The ranks that have logs, in order, by job and restart."""
    found: dict[tuple[str, int], list[int]] = {}
    for match in filter(None, map(_RANK.fullmatch, names)):
        found.setdefault((match[1], int(match[2])), []).append(int(match[3]))
    return {key: sorted(ranks) for key, ranks in found.items()}
