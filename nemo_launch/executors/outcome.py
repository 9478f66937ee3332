"""What jobs wrote about themselves: start and exit records, the rank that failed first, who owns the submission."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nemo_launch.executors.base import Failure, Job
from nemo_launch.transport import Transport

_RECORD = re.compile(r"(started|exit|ranks|restart)-(.+)-([0-9]+)(?:\.json|/first-failure\.json)")


class Outcome(NamedTuple):
    """The newest attempt of one job in its own words. Times are unix seconds; None: not written (yet)."""

    attempt: int = 0
    """How often this job was started before, as its records count."""
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    """None: no exit record of the newest attempt, whatever earlier attempts wrote."""
    cause: str = ""
    """``ended`` by itself, ``memory`` (the job's was not enough), ``signal``, ``cancelled``, ``duplicate``, or what
    stood in the way: ``claim``, ``workdir``, ``secrets``, ``setup``, ``policy`` (an attempt that ``resume_on`` does not
    have), ``python``, ``torch``, ``nsys``, ``ft``, ``port``, ``program``."""
    signal: str = ""
    """The signal that asked it to end, such as SIGTERM."""
    reason: str = ""
    """In plain words, where the cause needs some."""
    nodes: str = ""
    failure: Failure | None = None
    owner: str = ""
    """Id of the job that claimed the submission; another than the handle's means that this one did nothing."""
    cancelled: bool = False
    """The user cancelled it: the marker is there."""
    before: int = 0
    """Attempts of the jobs that this one follows."""
    restarting: str = ""
    """Why the job had itself put back into the queue (a cause of ``resume_on``); empty: it did not."""
    word: str = ""
    """What Slurm wrote into the log when it ended the job: cancelled, timeout, preempted, node_fail or by_hand."""
    memory: str = ""
    """How much of it the job may use, and what helps where that is not enough; in plain words."""


class Attempt(NamedTuple):
    """One start of a task."""

    number: int
    """0 for the first, over all jobs of the task."""
    job_id: str
    restart: int
    """How often that job had been started before."""
    log_from: int
    """Where in the job's log it begins, in bytes."""


def read_attempts(transport: Transport, job: Job) -> tuple[str, list[Attempt]]:
    """Id of the job that owns the submission (empty: none has claimed it), and all attempts that began, in order."""
    paths = job.paths.patterns()
    files = transport.read_matching([paths.started(), paths.follows()])
    owner = transport.readlinks([job.paths.claim]).get(job.paths.claim, "").removeprefix("job-")
    handle = job.handle
    mine = handle.own_id if handle and (handle.array_index is not None or not owner) else owner
    found = []
    jobs: dict[str, int] = {}
    while mine and mine not in jobs:  # from the newest job back to the first
        follows = _record(files.get(job.paths.follows(mine), b"")) or {}
        jobs[mine] = _integer(follows.get("attempt")) or 0
        mine = _text(follows.get("job_id"))
    for path, data in files.items():
        match, record = _RECORD.fullmatch(os.path.basename(path)), _record(data)
        if match and match[1] == "started" and match[2] in jobs and record is not None:
            restart = int(match[3])
            at = _integer(record.get("log_from")) or 0
            found.append(Attempt(jobs[match[2]] + restart, match[2], restart, at))
    return owner, sorted(found, key=lambda one: one.number)


def read_outcomes(transport: Transport, jobs: Sequence[Job]) -> dict[str, Outcome]:
    """The outcomes of all jobs by ``Job.key``: one question for their records, one for their claims."""
    patterns = [pattern for job in jobs for pattern in _patterns(job)]
    files = transport.read_matching(patterns) if patterns else {}
    claims = transport.readlinks(job.paths.claim for job in jobs) if jobs else {}
    by_folder: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        folder, name = os.path.split(path)
        if name == "first-failure.json":
            folder, ranks = os.path.split(folder)
            name = f"{ranks}/{name}"
        by_folder.setdefault(folder, {})[name] = data
    return {
        job.key: parse(
            job.handle.own_id if job.handle else "",
            by_folder.get(job.paths.job_dir, {}),
            claims.get(job.paths.claim, ""),
        )
        for job in jobs
    }


def parse(job_id: str, files: Mapping[str, bytes], claim: str = "") -> Outcome:
    """The outcome from the files of a job's folder (by name in that folder). What is damaged counts as not there."""
    owner = claim.removeprefix("job-")
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    for name, data in files.items():
        match = _RECORD.fullmatch(name)
        record = _record(data) if match and match[2] == job_id else None
        if match and record is not None:
            found[match[1], int(match[3])] = record
    attempt = max((restart for _, restart in found), default=0)
    start = found.get(("started", attempt), {})
    end = found.get(("exit", attempt), {})
    failure = found.get(("ranks", attempt))
    follows = _record(files.get(f"follows-{job_id}.json", b"")) or {}
    return Outcome(
        attempt=attempt,
        before=_integer(follows.get("attempt")) or 0,
        restarting=_text(found.get(("restart", attempt), {}).get("cause")),
        started=_number(end.get("started", start.get("started"))),
        ended=_number(end.get("ended")),
        exit_code=_integer(end.get("exit_code")),
        cause=_text(end.get("cause")),
        signal=_text(end.get("signal")),
        reason=_text(end.get("message")),
        word=_text(end.get("word")),
        memory=_text(start.get("memory")),
        nodes=_text(end.get("nodes", start.get("nodes"))),
        failure=_failure(failure, _integer(end.get("followed")) or 0) if failure is not None else None,
        owner=owner,
        cancelled="cancelled" in files,
    )


def _patterns(job: Job) -> list[str]:
    paths = job.paths.patterns()
    if job.handle is None:
        return [paths.cancelled]
    job_id = job.handle.own_id
    return [
        *(paths.started(job_id), paths.exit_record(job_id), paths.first_failure(job_id), paths.cancelled),
        *(paths.restart(job_id), paths.follows(job_id)),
    ]


def _record(data: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _failure(value: Mapping[str, Any], followed: int) -> Failure | None:
    rank = _integer(value.get("rank"))
    if rank is None:
        return None
    return Failure(
        rank,
        _text(value.get("node")),
        _integer(value.get("exit_code")),
        _text(value.get("signal")) or None,
        _text(value.get("exception")),
        _text(value.get("traceback")),
        followed,
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
