"""The executor for this machine: writes the job files, hands the tasks to a supervisor, tells what became of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_launch import environment, groups, runner
from nemo_launch.config import rules
from nemo_launch.config.executor import LocalConfig
from nemo_launch.errors import InputError, Problem, SchedulerRefused
from nemo_launch.executors import ranks
from nemo_launch.executors.base import Handle, Job, Ledger, LogSource, Observation, Plan, Recovery
from nemo_launch.executors.local import ending, polling, preflight, processes, start
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task
from nemo_launch.transport import LocalTransport, Transport


class LocalExecutor:
    """Runs on this machine. ``LocalExecutor(LocalConfig(...))``, or the fields of LocalConfig as keywords."""

    kind = "local"

    def __init__(self, config: LocalConfig | None = None, **fields: object) -> None:
        from nemo_launch.config.structure import given

        config = given(LocalConfig, config, fields, "LocalExecutor")
        self.config: LocalConfig
        self.config, self._secret_values = environment.without_secret_values(config)
        self.transport: Transport = LocalTransport()

    @property
    def title(self) -> str:
        """As the status block shows it."""
        return f"LocalExecutor on @{self.transport.name}"

    def __repr__(self) -> str:
        return f"LocalExecutor({self.config!r})"

    def check(self, tasks: Sequence[Task], title: str = "") -> list[Problem]:
        """See ``Executor.check``."""
        return preflight.check(self.config, tasks, self._secret_values)

    def plan(self, task: Task, paths: TaskPaths) -> Plan:
        """See ``Executor.plan``."""
        if not task.members:
            return self._plan(task, paths)
        made = LocalExecutor(replace(self.config, **groups.outer(self.config, task)))
        around = made._plan(groups.around(task, paths), paths)
        return groups.plan(task, paths, around, lambda executor, one, inside: executor._plan(one, inside, member=True))

    def _plan(self, task: Task, paths: TaskPaths, member: bool = False) -> Plan:
        config = self.config
        env, apart = environment.apart(environment.job_environment(config, task.env, os.environ), os.environ)
        values: dict[str, str | int | Sequence[str]] = {
            "nl_scheduler": "local",
            "nl_experiment": os.path.basename(os.path.dirname(paths.dir)),
            "nl_task": task.name,
            "nl_job_dir": paths.job_dir,
            "nl_work_dir": preflight.work_dir(config, task),
            "nl_launcher": preflight.launcher(config, task),
            "nl_language": task.language,
            "nl_program": task.argv,
            "nl_interpreter": task.interpreter,
            "nl_python": config.python or sys.executable,
            "nl_pythonpath": task.pythonpath,
            "nl_ntasks_per_node": config.ntasks_per_node,
            "nl_env": apart,
            "nl_signal": config.signal or "",
            "nl_member": "1" if member else "",
        }
        needed = runner.files(task.language, preflight.launcher(config, task))
        return Plan(
            task=task,
            paths=paths,
            script=runner.batch_script([], values),
            command=("bash", paths.script),
            env={**env, processes.MARKER: paths.job_dir},
            secrets=environment.secret_names(
                config, task.secrets, {**self._secret_values, **task.secret_values}, os.environ
            ),
            files={f"runner/{name}": data for name, data in needed.items()},
            notes=tuple(rules.without_effect(config)),
        )

    def submit(self, plans: Sequence[Plan], ledger: Ledger) -> None:
        """See ``Executor.submit``."""
        if not plans:
            return
        experiment = os.path.dirname(plans[0].paths.dir)
        outside = _outside(plans, ledger)
        for plan in plans:
            # Not a record, and read at once: not worth a flush to disk for each file.
            for name, data in plan.files.items():
                self.transport.write(os.path.join(plan.paths.job_dir, name), data, sync=False)
            self.transport.write(plan.paths.script, plan.script.encode("utf-8", "surrogateescape"), 0o755, sync=False)
        tasks = [self._request(plan) for plan in plans]
        request = {"tasks": tasks, "outside": outside, "max_parallel": self.config.max_parallel}
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

    def recover(self, jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
        """See ``Executor.recover``. The tag is the claim, which the supervisor makes before it starts anything."""
        return polling.recover(self.transport, jobs)

    def poll(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.poll``."""
        return polling.poll(self.transport, jobs)

    def cancel(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.cancel``: TERM, after the grace KILL, until no process of theirs is left."""
        return ending.end(self.transport, jobs, "cancel", self.config.grace.seconds)

    def kill(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """End them at once: KILL."""
        return ending.end(self.transport, jobs, "kill", 0.0)

    def terminate(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """Send TERM, so that they save and end; nothing is killed and nothing waited for."""
        return ending.end(self.transport, jobs, "terminate", None)

    def log_sources(self, job: Job) -> list[LogSource]:
        """See ``Executor.log_sources``."""
        if job.handle is None:
            return []
        log = job.paths.log(job.handle.job_id)
        sources = [LogSource(log)] if self.transport.exists(log) else []
        folder = job.paths.ranks(job.handle.job_id, 0)
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        return sources + ranks.sources(folder, names)

    @property
    def given_secrets(self) -> Mapping[str, str]:
        """Values of secrets that came with the config."""
        return self._secret_values

    # -- inside -------------------------------------------------------------------------------------------------

    def _request(self, plan: Plan) -> dict[str, Any]:
        """One task for the supervisor. It holds values of secrets: it may go through a pipe and nowhere else."""
        config = self.config
        given = {**self._secret_values, **plan.task.secret_values}
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
