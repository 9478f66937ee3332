"""Handing tasks to their supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nemo_launch import environment
from nemo_launch.errors import InputError, Problem, SchedulerRefused
from nemo_launch.executors.base import Handle, Ledger, Plan
from nemo_launch.executors.local import preflight, start

if TYPE_CHECKING:
    from nemo_launch.executors.local.executor import LocalExecutor


def submit(executor: LocalExecutor, plans: Sequence[Plan], ledger: Ledger) -> None:
    """See ``Executor.submit``."""
    if not plans:
        return
    experiment = os.path.dirname(plans[0].paths.dir)
    outside = _outside(plans, ledger)
    for plan in plans:
        # Not a record, and read at once: not worth a flush to disk for each file.
        for name, data in plan.files.items():
            executor.transport.write(os.path.join(plan.paths.job_dir, name), data, sync=False)
        executor.transport.write(plan.paths.script, plan.script.encode("utf-8", "surrogateescape"), 0o755, sync=False)
    tasks = [_request(executor, plan) for plan in plans]
    request = {"tasks": tasks, "outside": outside, "max_parallel": executor.config.max_parallel}
    for plan in plans:
        ledger.intend(plan)
    try:
        job_id = start.supervisor(experiment, request)
    except SchedulerRefused as error:
        for plan in plans:
            ledger.refused(plan, str(error))
        raise
    for plan in plans:
        ledger.submitted(plan, Handle(job_id))


def _request(executor: LocalExecutor, plan: Plan) -> dict[str, Any]:
    """One task for the supervisor. It holds values of secrets: it may go through a pipe and nowhere else."""
    config = executor.config
    given = executor.secrets_of(plan.task)
    return {
        "name": plan.task.name,
        "dir": plan.paths.job_dir,
        "command": list(plan.command),
        "env": {**plan.env, **environment.secret_values(plan.secrets, given, os.environ)},
        "cwd": preflight.work_dir(config, plan.task),
        "after": list(plan.task.after),
        "grace": config.grace.seconds,
        "time": config.time.seconds if config.time else None,
        "margin": config.margin_seconds(),
        "resume_on": list(config.resume_on.causes),
        "resume_codes": list(config.resume_on.codes),
        "max_restarts": config.max_restarts,
        "signal": int(signal.Signals[f"SIG{config.signal}"]) if config.signal else None,
    }


def _outside(plans: Sequence[Plan], ledger: Ledger) -> list[dict[str, str]]:
    """Predecessors that were submitted before, with another executor's settings."""
    experiment = os.path.dirname(plans[0].paths.dir)
    names = {plan.task.name for plan in plans}
    found = []
    for name in dict.fromkeys(name for plan in plans for name in plan.task.after if name not in names):
        handle = ledger.handle(name)
        if handle is None:
            raise InputError(Problem(f"{name!r} was not submitted", "after", "Add it to the same launch."))
        found.append({"name": name, "dir": os.path.join(experiment, name), "job_id": handle.job_id})
    return found
