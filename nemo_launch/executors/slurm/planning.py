"""A task as a Slurm job: the plan of it, without any effect."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nemo_launch import environment, groups, runner
from nemo_launch.config import nsys, presets, rules
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.executors.base import Plan
from nemo_launch.executors.slurm import commands, containers, directives, hetjob, render, submit
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task

if TYPE_CHECKING:
    from nemo_launch.executors.slurm.executor import SlurmExecutor


def plan(executor: SlurmExecutor, task: Task, paths: TaskPaths) -> Plan:
    """See ``Executor.plan``."""
    if not task.members:
        return _plan(executor, task, paths)
    shared = groups.parts(task)
    first, *rest = configs = hetjob.parts(shared)
    outer = type(executor)(first, transport=executor.transport)
    made = _plan(outer, groups.around(task, paths), paths, more=rest)
    numbers = {member.task.name: number for number, members in enumerate(shared) for member in members}

    def of_member(own: SlurmExecutor, one: Task, inside: TaskPaths) -> Plan:
        return _plan(own, one, inside, member=render.Member(numbers[one.name] if len(configs) > 1 else None))

    return groups.plan(task, paths, made, of_member)


def _plan(
    executor: SlurmExecutor,
    task: Task,
    paths: TaskPaths,
    member: render.Member | None = None,
    more: Sequence[SlurmConfig] = (),
) -> Plan:
    config, environ = executor.config, os.environ
    names = environment.secret_names(config, task.secrets, executor.secrets_of(task), environ)
    contained, launcher = bool(config.container_image), render.launcher(config, task)
    needed = runner.files(task.language, launcher, contained, config.nsys_enabled)
    secrets_file = paths.secrets if names and not member and executor.site.accounting_shows_environment else ""
    # An image has its own PATH and libraries: there only what was asked for by name.
    asked = {*config.env_vars, *task.env, *(() if config.container_image else environment.TOOLS)}
    env, apart = environment.apart(commands.submission(config, task, environ), environ, asked)
    has = executor.site.container_options(config)
    apart = (*apart, *containers.words(config, task, has))
    return Plan(
        task=task,
        paths=paths,
        script=render.script(config, task, paths, names, secrets_file, apart, has, member, more),
        command=submit.command(paths.script, (), config.dependency),
        env=env,
        secrets=names,
        files={f"runner/{name}": data for name, data in needed.items()},
        notes=(
            *_notes(executor, task, environ, secrets_file),
            *containers.notes(config, task, paths, has),
            *nsys.notes(config, paths.job_dir),
        ),
    )


def _notes(executor: SlurmExecutor, task: Task, environ: Mapping[str, str], secrets_file: str) -> list[str]:
    config = executor.config
    notes = [
        f"{name}={value} of your environment applies" for name, value in commands.site_defaults(config, environ).items()
    ]
    notes += rules.without_effect(config)
    notes += _of_preset(config)
    notes += directives.notes(task)
    if image := config.container_image:
        seen = [*([image] if image.startswith("/") else []), *(m.source for m in config.container_mounts)]
        absent = [path for path in dict.fromkeys(seen) if not executor.transport.exists(path)]
        notes += [f"{path} is not on this machine; the nodes must see it" for path in absent]
    if task.after:
        notes.append(f"sbatch also gets --dependency=afterok: with the job ids of {', '.join(task.after)}")
    if secrets_file:
        notes.append("accounting shows environments here, so secrets travel in a file that only you can read")
    return notes


def _of_preset(config: SlurmConfig) -> list[str]:
    """Which values are the preset's, in a line."""
    preset = presets.described(config)
    if preset is None:
        return []
    values = {
        name: str(value).lower() if value is True or value is False else value
        for name, value in preset["fields"].items()
    }
    given = ", ".join(f"{name}={value}" for name, value in values.items()) or "nothing"
    network = f"; the network {' or '.join(preset['fabrics'])}, where a node has it" if preset["fabrics"] else ""
    return [f"from the preset {preset['name']} ({preset['file']}): {given}{network}"]
