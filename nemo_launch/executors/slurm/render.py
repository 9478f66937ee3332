"""From a task and a config to the batch script's directives and values. Pure: the same request gives the same bytes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nemo_launch import layout, runner
from nemo_launch.config import ft, nsys, presets
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.executors.slurm import containers
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task

#: sbatch takes no longer margin (option ``--signal``).
_LONGEST_MARGIN = 65535


class Member(NamedTuple):
    """Of a command of a group."""

    part: int | None
    """Number of its part of a heterogeneous job; None: the job is none."""


def script(
    config: SlurmConfig,
    task: Task,
    paths: TaskPaths,
    secrets: Iterable[str],
    secrets_file: str = "",
    env: Sequence[str] = (),
    has: frozenset[str] = containers.OPTIONS,
    member: Member | None = None,
    more: Sequence[SlurmConfig] = (),
) -> str:
    """Text of the batch script.

    ``env``: see ``environment.apart``, ``has``: ``containers.supported``, ``member``: it is one of a group's job,
    ``more``: the further parts of a heterogeneous job.
    """
    known = {**values(config, task, paths, secrets, secrets_file, has), "nl_env": tuple(env)}
    if member:  # its step shares the nodes with those of the others
        known |= {"nl_member": "1", "nl_resume_on": (), "nl_srun_args": ("--overlap", *tuple(known["nl_srun_args"]))}  # type: ignore[arg-type]
        known["nl_het_group"] = "" if member.part is None else member.part
        return runner.batch_script([], known)
    if task.argv[0] == os.path.join(paths.runner, "group.sh"):
        known["nl_group"] = "het" if more else "plain"
    directives = [f"#SBATCH {_word(option)}" for option in options(config, task, paths)]
    for part in more:
        directives += ["#SBATCH hetjob", *(f"#SBATCH {_word(option)}" for option in resources(part))]
    return runner.batch_script(directives, known)


def options(config: SlurmConfig, task: Task, paths: TaskPaths) -> Iterator[str]:
    """sbatch's options, each as one word and not yet quoted."""
    yield f"--job-name={config.job_name or task.name}"
    # Absolute: in a relative file name Slurm would look for % in the folder's name, too.
    escaped = layout.TaskPaths(paths.dir, paths.job_dir.replace("%", "%%"))
    yield f"--output={escaped.log('%j')}"
    yield "--open-mode=append"
    yield f"--chdir={paths.job_dir}"
    yield from resources(config)
    mail = {"mail-type": config.mail_type, "mail-user": config.mail_user}
    yield from (f"--{name}={value}" for name, value in mail.items() if value is not None)
    yield "--requeue" if config.resume_on else "--no-requeue"
    margin = config.margin_seconds()
    if margin is not None:
        yield f"--signal=B:USR1@{min(margin, _LONGEST_MARGIN)}"
    yield f"--comment={paths.script}"
    yield "--export=ALL"
    yield from config.sbatch_args


def resources(config: SlurmConfig) -> Iterator[str]:
    """Those that each part of a heterogeneous job has of its own (``groups.OF_A_PART``, and how many tasks)."""
    yield f"--nodes={config.nodes}"
    yield f"--ntasks-per-node={config.ntasks_per_node}"
    named = {
        "cpus-per-task": config.cpus_per_task,
        "gpus-per-node": config.gpus_per_node or None,
        "mem": config.mem,
        "mem-per-cpu": config.mem_per_cpu,
        "mem-per-gpu": config.mem_per_gpu,
        "time": config.time,
        "account": config.account,
        "partition": config.partition,
        "qos": config.qos,
        "constraint": config.constraint,
        "reservation": config.reservation,
        "nodelist": config.nodelist,
        "exclude": config.exclude,
    }
    yield from (f"--{name}={value}" for name, value in named.items() if value is not None)
    if config.exclusive:
        yield "--exclusive"


def launcher(config: SlurmConfig, task: Task) -> str:
    """How the processes start."""
    if config.launcher:
        return config.launcher
    if task.language == "python":
        return "torchrun"
    return "srun" if config.nodes * config.ntasks_per_node > 1 else "none"


def values(
    config: SlurmConfig,
    task: Task,
    paths: TaskPaths,
    secrets: Iterable[str],
    secrets_file: str,
    has: frozenset[str] = containers.OPTIONS,
) -> dict[str, str | int | tuple[str, ...]]:
    """What the skeleton needs to know (``runner.VALUES``)."""
    secrets = tuple(secrets)
    contained = containers.srun_args(config, task, paths, secrets, has)
    mpi = (f"--mpi={config.mpi}",) if config.mpi else ()
    fabric = presets.words(config)
    return {
        "nl_scheduler": "slurm",
        "nl_experiment": os.path.basename(os.path.dirname(paths.dir)),
        "nl_task": task.name,
        "nl_job_dir": paths.job_dir,
        "nl_work_dir": task.work_dir or config.work_dir or os.getcwd(),
        "nl_launcher": launcher(config, task),
        "nl_language": task.language,
        "nl_program": task.argv,
        "nl_interpreter": task.interpreter,
        "nl_python": config.python or ("python3" if config.container_image else sys.executable),
        "nl_pythonpath": task.pythonpath,
        "nl_nodes": config.nodes,
        "nl_ntasks_per_node": config.ntasks_per_node,
        "nl_cpus_per_task": config.cpus_per_task or "",
        "nl_gpus_per_node": config.gpus_per_node or "",
        "nl_master_port": config.master_port,
        "nl_fabric": fabric,
        "nl_user_env": tuple(dict.fromkeys((*config.env_vars, *task.env, *secrets))) if fabric else (),
        "nl_srun_args": (*mpi, *contained, *config.srun_args),
        "nl_container_name": config.container_name or "" if contained else "",
        "nl_mounts": containers.sources(config, task, paths),
        "nl_folders": containers.folders(config, task),
        "nl_setup": config.setup or "",
        "nl_signal": config.signal or "",
        "nl_secrets_file": secrets_file,
        "nl_resume_on": config.resume_on.causes,
        "nl_resume_codes": tuple(map(str, config.resume_on.codes)),
        "nl_max_restarts": config.max_restarts,
        "nl_ft": ft.words(config),
        "nl_nsys": nsys.words(config),
        "nl_nsys_output": nsys.target(config, task.work_dir or config.work_dir or os.getcwd()),
        "nl_nsys_ranks": tuple(map(str, config.nsys_ranks)) if config.nsys_enabled else (),
        "nl_margin": config.margin.seconds if config.margin else "",
    }


def _word(option: str) -> str:
    """One word of a ``#SBATCH`` line. Seen: sbatch knows quotes and ``\\``, but ``\\ `` does not join words."""
    plain = re.compile(r"[\w/.%=+:,@^-]")
    quoted = (c if plain.match(c) else f'"{c}"' if c.isspace() else f"\\{c}" for c in option)
    return "".join(quoted)
