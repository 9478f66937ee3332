"""Which logs of a job exist."""

from __future__ import annotations

from nemo_launch.executors import ranks
from nemo_launch.executors.base import Job, LogSource
from nemo_launch.executors.outcome import read_outcomes
from nemo_launch.executors.slurm.owners import owned
from nemo_launch.transport import Transport


def log_sources(transport: Transport, job: Job) -> list[LogSource]:
    """The whole log, then the ranks' own ones of the newest attempt."""
    (job,) = owned(transport, [job])
    if job.handle is None:
        return []
    outcome = read_outcomes(transport, [job])[job.key]
    whole = job.paths.log(str(job.handle))
    sources = [LogSource(whole, attempt=outcome.attempt)] if transport.exists(whole) else []
    folder = job.paths.ranks(job.handle.job_id, outcome.attempt)
    listed = transport.run(["find", folder, "-maxdepth", "1", "-name", "rank-*.log", "-printf", "%f\\n"])
    return sources + ranks.sources(folder, listed.stdout.split(), outcome.attempt)
