"""Groups: several commands side by side in one job (a server and its client), with a policy for their end."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from nemo_launch.config import ft, nsys
from nemo_launch.config.executor import ExecutorConfig, SlurmConfig, field_names
from nemo_launch.config.hints import did_you_mean
from nemo_launch.errors import InputError, Problem
from nemo_launch.executors.base import Executor, Plan
from nemo_launch.layout import TaskPaths
from nemo_launch.recipes import Recipe, Site
from nemo_launch.runner import text
from nemo_launch.task import Member, Task

Policy = Literal["fail-fast", "wait-all", "leader"]
#: What belongs to the job and not to one of its commands, and why: all of them must say the same.
_OF_THE_JOB = {
    **dict.fromkeys(("job_name", "dependency", "mail_type", "mail_user"), "the scheduler knows them as one job"),
    **dict.fromkeys(("margin", "signal"), "the checkpoint request comes once, for all"),
    **dict.fromkeys(("resume_on", "max_restarts"), "they start again together or not at all"),
    "sbatch_args": "sbatch is called once, for all",
    "job_dir": "the job has one folder",
    "inherit_env": "the job has one environment, to which commands only add",
    "max_parallel": "it counts jobs",
}
#: The same for commands on this machine.
_OF_ONE_SUPERVISOR = dict.fromkeys(("time", "grace"), "one supervisor ends them")
#: In which the commands of a Slurm job may differ: then those that differ are parts of a heterogeneous job.
OF_A_PART = (
    "nodes", "gpus_per_node", "partition", "account", "time", "qos", "constraint", "reservation", "nodelist", "exclude",
    "mem", "mem_per_cpu", "mem_per_gpu", "exclusive",
)  # fmt: skip
#: What one command has of its own; the job around them has the defaults.
_OF_A_COMMAND = (
    "launcher", "python", "env_vars", "setup", "srun_args", "mpi", "slurm_type", "fabric", "container_image",
    "container_mounts", "container_workdir", "container_mount_home", "container_name", "container_writable",
    *nsys.FIELDS, *ft.FIELDS,
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Recipes that run in one job, each with the executor at its place."""

    recipes: tuple[Recipe, ...]
    executors: tuple[Executor, ...]
    policy: Policy
    site: Callable[[Executor], Site]

    @property
    def name(self) -> str:
        """The names of its recipes."""
        return "-".join(dict.fromkeys(recipe.name for recipe in self.recipes))

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """See ``Recipe.lower``: a task whose members are the recipes' tasks."""
        problems: list[Problem] = []
        members = []
        for label, recipe, executor in zip(self.labels(), self.recipes, self.executors, strict=True):
            try:
                members.append(Member(recipe.lower(label, self.site(executor)), executor))
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(dict.fromkeys(problems))
        tasks = [member.task for member in members]
        return Task(
            name=name,
            recipe=", ".join(task.recipe for task in tasks),
            language="shell",
            argv=("group.sh", self.policy, *self.labels()),
            interpreter=("bash",),
            secrets=tuple(dict.fromkeys(n for m in members for n in (*m.executor.config.secrets, *m.task.secrets))),
            secret_values={
                n: value for m in members for n, value in {**m.executor.given_secrets, **m.task.secret_values}.items()
            },
            work_dir=site.work_dir,
            after=after,
            members=tuple(members),
        )

    def labels(self) -> list[str]:
        """Names of the commands: of their folders and in front of their lines."""
        labels: list[str] = []
        for recipe in self.recipes:
            base, number = "".join(c if c.isalnum() or c in "._-" else "_" for c in recipe.name).lstrip(".-"), 1
            base = base or "command"
            label = base
            while variable(label) in map(variable, (*labels, "runner", "secrets")):
                label, number = f"{base}_{number}", number + 1
            labels.append(label)
        return labels


def of(
    recipes: Sequence[Recipe], executors: Sequence[Executor], policy: str, site: Callable[[Executor], Site]
) -> Group:
    """The group of what ``Experiment.add`` was given.

    Raises:
        InputError: nothing to run, another number of executors, or no such policy.
    """
    problems = []
    if not recipes:
        problems.append(Problem("a group needs recipes", "add", "Give a list of them."))
    if len(executors) not in (1, len(recipes)):
        what = f"{len(recipes)} recipes and {len(executors)} executors"
        problems.append(Problem(what, "executor", "Give one executor for all, or one for each."))
    known: tuple[Policy, ...] = get_args(Policy)
    found = next((word for word in known if word == policy), None)
    if found is None:
        fix = did_you_mean(str(policy), known) or f"There are {', '.join(known)}."
        problems.append(Problem(f"there is no policy {policy!r}", "policy", fix))
    problems += _differences(executors)
    if problems or found is None:
        raise InputError(problems)
    all_of_them = tuple(executors) * (len(recipes) if len(executors) == 1 else 1)
    return Group(tuple(recipes), all_of_them, found, site)


def _differences(executors: Sequence[Executor]) -> Iterator[Problem]:
    places = dict.fromkeys(f"{executor.kind} on {executor.transport.name}" for executor in executors)
    if len(places) > 1:
        what = f"the commands of a group run in one job, and these are of {' and '.join(places)}"
        yield Problem(what, "executor", "Give executors of one kind and place, or add tasks of their own.")
        return
    configs = [executor.config for executor in executors]
    if not configs:
        return
    slurm = [config for config in configs if isinstance(config, SlurmConfig)]
    for name, why in (_OF_THE_JOB if slurm else {**_OF_THE_JOB, **_OF_ONE_SUPERVISOR}).items():
        if any(getattr(config, name, None) != getattr(configs[0], name, None) for config in configs):
            what = f"{name} is the job's ({why}), and the executors of the group differ in it"
            yield Problem(what, "executor", f"Give all of them the same {name}, or add tasks of their own.")
    yield from _parts_problems(slurm)


def _parts_problems(configs: Sequence[SlurmConfig]) -> Iterator[Problem]:
    """What sbatch makes impossible in a heterogeneous job (seen with 22.05)."""
    if len({resources(config) for config in configs}) < 2:
        return
    for name in _PASSED_ON:
        values = [getattr(config, name) for config in configs]
        if any(value is None and any(before is not None for before in values[:i]) for i, value in enumerate(values)):
            what = (
                f"{name} is set for one part of the group's job and not for a later one, to which sbatch passes it on"
            )
            yield Problem(what, "executor", f"Set {name} for all of them, or put the executors without it first.")
    if "singleton" in (configs[0].dependency or "").split(","):
        what = "singleton would make the parts of the group's job, which have one name, wait for each other"
        yield Problem(what, "dependency", "Use a dependency on job ids, or give all executors the same resources.")


#: Fields that sbatch takes over from the part before where a part does not set them.
_PASSED_ON = ("account", "qos", "time", "reservation", "exclude", "mem", "mem_per_cpu", "mem_per_gpu")


def resources(config: SlurmConfig) -> tuple[Any, ...]:
    """What commands share that say the same: a part of the job."""
    return tuple(getattr(config, name) or None for name in OF_A_PART)


def parts(task: Task) -> list[list[Member]]:
    """The commands that share their nodes; more than one list: the job is heterogeneous."""
    found: dict[tuple[Any, ...], list[Member]] = {}
    for member in task.members:
        config = member.executor.config
        found.setdefault(resources(config) if isinstance(config, SlurmConfig) else (), []).append(member)
    return list(found.values())


def variable(label: str) -> str:
    """Of the command's hosts, in the environment of all: ``NEMO_LAUNCH_HOSTS_SERVER``."""
    return "NEMO_LAUNCH_HOSTS_" + re.sub(r"[^A-Z0-9]", "_", label.upper())


def outer(members: Sequence[Member]) -> ExecutorConfig:
    """The first one's config for the job around commands that share their nodes: large enough for each of them."""
    configs = [member.executor.config for member in members]
    config: ExecutorConfig = configs[0]
    default = type(config)()
    changes = {n: getattr(default, n) for n in _OF_A_COMMAND if n in field_names(type(config))}
    changes["launcher"] = "none"
    if isinstance(config, SlurmConfig):
        wanted = [c for c in configs if isinstance(c, SlurmConfig)]
        changes["ntasks_per_node"] = max(c.ntasks_per_node for c in wanted)
        changes["cpus_per_task"] = max((c.cpus_per_task or 0 for c in wanted), default=0) or None
    else:
        changes["ntasks_per_node"] = 1
    return replace(config, **changes)


def plan(task: Task, paths: TaskPaths, around: Plan, member_plan: Callable[[Any, Task, TaskPaths], Plan]) -> Plan:
    """The plan of a group: the job around it, and in its folder a folder with a script for each command."""
    files: dict[str, bytes] = {**around.files, "runner/group.sh": text("group.sh").encode()}
    notes = list(around.notes)
    for member in task.members:
        name = member.task.name
        inner = TaskPaths(paths.dir, os.path.join(paths.job_dir, name))
        made = member_plan(member.executor, member.task, inner)
        files[f"{name}/job.sh"] = made.script.encode("utf-8", "surrogateescape")
        files |= {f"{name}/{path}": data for path, data in made.files.items()}
        files[f"{name}/environment"] = _environment(made.env, around.env)
        notes += [f"{name}: {note}" for note in made.notes]
    return around._replace(task=task, files=files, notes=tuple(dict.fromkeys(notes)))


def around(task: Task, paths: TaskPaths, grace: int | None = None) -> Task:
    """The task of the job around the commands, whose program is the script that starts them.

    ``grace``: seconds between TERM and KILL; None: Slurm's own.
    """
    script = os.path.join(paths.runner, task.argv[0])
    of = parts(task)
    numbers = {m.task.name: str(n) if len(of) > 1 else "" for n, members in enumerate(of) for m in members}
    names = [f"{m.task.name}:{numbers[m.task.name]}:{variable(m.task.name)}" for m in task.members]
    argv = (script, task.argv[1], "" if grace is None else str(grace), *names)
    return replace(task, argv=argv, members=())


def _environment(env: Mapping[str, str], outside: Mapping[str, str]) -> bytes:
    own = {name: value for name, value in env.items() if outside.get(name) != value}
    return b"".join(f"{name}={value}\0".encode("utf-8", "surrogateescape") for name, value in own.items())
