"""What ``--json`` prints: one document, keys stable within a ``schema_version``.

**status, cancel, and every launch** (``experiment``)::

    schema_version  1
    experiment      {id, title, directory}
    adopted         true: this launch went on with one that was interrupted (launches only)
    tasks           list, in the order they were added; each:
        name, state             state: UNSUBMITTED SUBMITTED PENDING RUNNING SUCCEEDED FAILED CANCELLED UNKNOWN
        final                   nothing more will happen
        executor                as the status block shows it
        job_id, cluster         strings or null
        directory               Local Directory
        log                     path of the whole log, or null without a job
        exit_code               number or null
        reason, raw             plain words; the scheduler's own word
        failure                 null, or {rank, node, exit_code, signal, exception, traceback, followed}
        finding                 null, or {name, means, remedies, line}: what the log of a failed task shows
        skipped, restarting     true or false
        attempt                 0 for the first
        max_attempts            how many there may be by the policy (max_restarts, and the first); null: not known
        nodes                   as the scheduler writes them
        estimated_start         unix seconds at which the scheduler means to start what waits, or null
        parts                   list; of each index of a job array or component of a heterogeneous job:
                                {job_id, state, final, exit_code, reason, raw, nodes, started, ended, age}
        submitted, started, ended   unix seconds or null
        age                     seconds since this was known, when the scheduler did not answer; else null

**status and cancel of several experiments, list** (``experiments``)::

    schema_version  1
    experiments     list, oldest first; each {experiment, tasks} as above

**--dry-run** (``plans``)::

    schema_version  1
    experiment      {id, title, directory}
    tasks           each {name, script, command, env, secrets, recipe, directory, files, notes};
                    recipe is null for scripts, else every value of a Python recipe by its place;
                    secrets are names; files are paths relative to the job's folder

Keys may be added without a new version; none is renamed or removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_launch.executors.base import Observation, Plan
    from nemo_launch.experiments.asked import Asked
    from nemo_launch.experiments.observing import TaskStatus

SCHEMA_VERSION = 1


def dumps(document: Mapping[str, Any]) -> str:
    """Text of a document; what is not valid UTF-8 in a name arrives escaped."""
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def experiment(launched: Asked, statuses: Sequence[TaskStatus], adopted: bool | None = None) -> dict[str, Any]:
    """See the module's description."""
    document = {"schema_version": SCHEMA_VERSION, **_entry(launched, statuses)}
    return document if adopted is None else {**document, "adopted": adopted}


def experiments(entries: Iterable[tuple[Asked, Sequence[TaskStatus]]]) -> dict[str, Any]:
    """See the module's description."""
    return {"schema_version": SCHEMA_VERSION, "experiments": [_entry(*entry) for entry in entries]}


def plans(planned: Asked, tasks: Sequence[Plan]) -> dict[str, Any]:
    """See the module's description."""
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": _identity(planned),
        "tasks": [
            {
                "name": plan.task.name,
                "script": plan.script,
                "command": list(plan.command),
                "env": dict(plan.env),
                "secrets": list(plan.secrets),
                "recipe": None if plan.task.config is None else dict(plan.task.config),
                "directory": plan.paths.dir,
                "files": sorted(plan.files),
                "notes": [*(note for code in plan.task.code for note in code.notes), *plan.notes],
            }
            for plan in tasks
        ],
    }


def _entry(launched: Asked, statuses: Sequence[TaskStatus]) -> dict[str, Any]:
    return {"experiment": _identity(launched), "tasks": [_task(status) for status in statuses]}


def _identity(launched: Asked) -> dict[str, str]:
    return {"id": launched.id, "title": launched.title, "directory": launched.paths.dir}


def _task(status: TaskStatus) -> dict[str, Any]:
    seen, handle = status.observation, status.job.handle
    return {
        "name": status.name,
        "state": str(seen.state),
        "final": seen.state.final,
        "executor": status.executor.title,
        "job_id": str(handle) if handle else None,
        "cluster": handle.cluster if handle else None,
        "directory": status.job.paths.dir,
        "log": status.job.paths.log(str(handle)) if handle else None,
        "exit_code": seen.exit_code,
        "reason": seen.reason,
        "raw": seen.raw,
        "failure": seen.failure._asdict() if seen.failure else None,
        "finding": asdict(status.finding) if status.finding else None,
        "skipped": seen.skipped,
        "restarting": seen.restarting,
        "attempt": seen.attempt,
        "max_attempts": getattr(status.executor, "max_attempts", None),
        "nodes": seen.nodes,
        "submitted": seen.submitted if seen.submitted is not None else status.job.submitted,
        "started": seen.started,
        "ended": seen.ended,
        "estimated_start": seen.estimated_start,
        "age": seen.age,
        "parts": [_part(job_id, part) for job_id, part in seen.parts.items()],
    }


def _part(job_id: str, seen: Observation) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "state": str(seen.state),
        "final": seen.state.final,
        "exit_code": seen.exit_code,
        "reason": seen.reason,
        "raw": seen.raw,
        "nodes": seen.nodes,
        "started": seen.started,
        "ended": seen.ended,
        "age": seen.age,
    }
