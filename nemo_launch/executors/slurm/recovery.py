"""Finding jobs again whose id was never recorded: by their tag, the unique path of their script."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from nemo_launch.executors.base import Handle, Job, Recovery
from nemo_launch.executors.outcome import read_outcomes
from nemo_launch.executors.slurm.merge import same_job
from nemo_launch.executors.slurm.query import Row, Slurm
from nemo_launch.transport import Transport

#: Two looks that find nothing, this far apart, before a job is said not to exist.
_BETWEEN = 2.0


def recover(transport: Transport, jobs: Sequence[Job], slurm: Slurm | None = None) -> dict[str, Handle | Recovery]:
    """For jobs with an intent and no id; by ``Job.key``. One squeue and one sacct for all, twice when some are missing.

    Nobody found means GONE only where no process is left that may still be submitting it. The process is looked for
    first and the queue asked after it: a job that sbatch has handed over is in the queue at once.
    """
    slurm = slurm or Slurm(transport)
    found: dict[str, Handle | Recovery] = {}
    missing = list(jobs)
    for last in (False, True):
        idle = {job.key for job in missing if not transport.pids_mentioning(job.paths.script)}
        handles, answered = _look(transport, slurm, missing)
        found.update(handles)
        missing = [job for job in missing if job.key not in handles]
        waiting = [job for job in missing if job.key in idle and answered]
        found.update({job.key: Recovery.IN_FLIGHT for job in missing if job not in waiting})
        missing = waiting
        if last:
            found.update({job.key: Recovery.GONE for job in missing})
        elif missing:
            time.sleep(_BETWEEN)
        else:
            break
    return found


def _look(transport: Transport, slurm: Slurm, jobs: Sequence[Job]) -> tuple[dict[str, Handle | Recovery], bool]:
    """Ids of those that exist, and whether what was said is enough to say of the others that they do not."""
    found: dict[str, Handle | Recovery] = {}
    outcomes = read_outcomes(transport, jobs)
    for job in jobs:  # a job that has started holds the claim: no question is needed
        owner = outcomes[job.key].owner
        if owner:
            found[job.key] = Handle(owner)
    rest = [job for job in jobs if job.key not in found]
    if not rest:
        return found, True
    queue = slurm.squeue(None)
    found.update(_match(queue.rows.values(), rest))
    rest = [job for job in rest if job.key not in found]
    if not rest:
        return found, True
    account = slurm.sacct(None, min(job.intended or time.time() for job in rest))
    found.update(_match(account.rows.values(), rest))
    return found, not queue.error and (not account.error or account.disabled)


def _match(rows: Iterable[Row], jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
    found: dict[str, Handle | Recovery] = {}
    for row in rows:
        if row.state == "FAILED" and (row.reason == "BadConstraints" or (not row.nodes and not row.reason)):
            continue  # what sbatch refuses can leave such a row
        for job in jobs:
            if row.command and same_job(row, job):
                found[job.key] = Handle(row.job_id)
    return found
