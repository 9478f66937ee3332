"""Looks for signatures in the log of a task that failed: once for each attempt, only the ends of two files."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from nemo_launch import records
from nemo_launch.errors import LaunchError, RecordError
from nemo_launch.executors.base import State

if TYPE_CHECKING:
    from nemo_launch import signatures
    from nemo_launch.executors.base import Executor, Job, LogSource, Observation

#: How much of the end of a log is read, in bytes.
TAIL = 256 * 1024
#: Seconds after the end in which a log may still grow (NFS): that nothing was found is remembered only later.
_SETTLED = 60.0


def finding(job: Job, executor: Executor, seen: Observation) -> signatures.Finding | None:
    """What the log of a failed task shows; nothing for any other. It is remembered in the task's folder."""
    if seen.state is not State.FAILED or job.handle is None:
        return None
    attempt = f"{job.handle}-{seen.attempt}"
    with contextlib.suppress(RecordError, TypeError, KeyError):
        kept = records.read_json(job.paths.finding)
        if kept and kept["attempt"] == attempt:
            return _loaded(kept["finding"])
    from dataclasses import asdict

    from nemo_launch import signatures

    found = signatures.find(_texts(job, executor, seen), seen.raw)
    if found or time.time() - (seen.ended or 0.0) > _SETTLED:
        value = {"attempt": attempt, "finding": asdict(found) if found else None}
        with contextlib.suppress(RecordError):  # another user's, or a full disk
            records.write_json(job.paths.finding, value, sync=False)
    return found


def _loaded(value: dict[str, Any] | None) -> signatures.Finding | None:
    from nemo_launch.signatures import Finding

    return Finding(**{**value, "remedies": tuple(value["remedies"])}) if value else None


def _texts(job: Job, executor: Executor, seen: Observation) -> list[str]:
    """The end of the log of the rank that failed first, then of the whole log."""
    rank = seen.failure.rank if seen.failure else None
    texts = []
    with contextlib.suppress(LaunchError):
        sources = executor.log_sources(job)
        newest = max((source.attempt for source in sources), default=0)
        for wanted in dict.fromkeys((rank, None)):
            for source in sources:
                if source.rank == wanted and source.attempt == newest:
                    texts.append(executor.transport.run(_end(source)).stdout)
    return texts


def _end(source: LogSource) -> list[str]:
    """The command that prints the end of a log, without what earlier attempts wrote into the same file."""
    if not source.begin:
        return ["tail", "-c", str(TAIL), source.path]
    text = 'tail -c "+$1" -- "$3" | tail -c "$2"'
    return ["sh", "-c", text, "sh", str(source.begin + 1), str(TAIL), source.path]
