"""A task on this machine: the plan of it, without any effect."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from nemo_launch import environment, groups, runner
from nemo_launch.config import nsys, rules
from nemo_launch.executors.base import Plan
from nemo_launch.executors.local import preflight, processes
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task

if TYPE_CHECKING:
    from nemo_launch.config.executor import LocalConfig
    from nemo_launch.executors.local.executor import LocalExecutor


def plan(executor: LocalExecutor, task: Task, paths: TaskPaths) -> Plan:
    """See ``Executor.plan``."""
    if not task.members:
        return _plan(executor, task, paths)
    config = cast("LocalConfig", groups.outer(task.members))
    around = _plan(type(executor)(config), groups.around(task, paths, config.grace.seconds), paths)
    return groups.plan(task, paths, around, lambda member, one, inside: _plan(member, one, inside, member=True))


def _plan(executor: LocalExecutor, task: Task, paths: TaskPaths, member: bool = False) -> Plan:
    config = executor.config
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
        "nl_nsys": nsys.words(config),
        "nl_nsys_output": nsys.target(config, preflight.work_dir(config, task)),
        "nl_nsys_ranks": tuple(map(str, config.nsys_ranks)) if config.nsys_enabled else (),
        "nl_member": "1" if member else "",
        "nl_resume_on": () if member else config.resume_on.causes,
        "nl_resume_codes": tuple(map(str, config.resume_on.codes)),
        "nl_max_restarts": config.max_restarts,
    }
    needed = runner.files(task.language, preflight.launcher(config, task), nsys=config.nsys_enabled)
    return Plan(
        task=task,
        paths=paths,
        script=runner.batch_script([], values),
        command=("bash", paths.script),
        env={**env, processes.MARKER: paths.job_dir},
        secrets=environment.secret_names(config, task.secrets, executor.secrets_of(task), os.environ),
        files={f"runner/{name}": data for name, data in needed.items()},
        notes=(*rules.without_effect(config), *nsys.notes(config, paths.job_dir)),
    )
