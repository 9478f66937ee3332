"""What stands against running tasks on this machine, found before anything is written."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence

from nemo_launch import environment
from nemo_launch.config.executor import LocalConfig
from nemo_launch.config.rules import validate
from nemo_launch.errors import Problem
from nemo_launch.executors import interpreters
from nemo_launch.task import Task


def launcher(config: LocalConfig, task: Task) -> str:
    """How the processes start: torchrun for Python programs unless said otherwise."""
    return config.launcher or ("torchrun" if task.language == "python" else "none")


def work_dir(config: LocalConfig, task: Task) -> str:
    """Where the processes start, absolute."""
    return os.path.abspath(task.work_dir or config.work_dir or os.getcwd())


def check(config: LocalConfig, tasks: Sequence[Task], given: Mapping[str, str]) -> list[Problem]:
    """All problems; ``given`` are values of secrets that came with the config."""
    found = [*validate(config), *environment.of_request(config, tasks, given, os.environ)]
    if not os.path.isdir("/proc/self"):
        found.append(Problem("there is no /proc, by which the tasks are found again", "executor", "Use Linux."))
    for task in tasks:
        env = environment.job_environment(config, task.env, os.environ)
        folder = work_dir(config, task)
        if not os.path.isdir(folder):
            found.append(Problem(f"{folder} is not a directory", "work_dir", "Make it, or name another."))
        path = env.get("PATH", os.defpath)
        if shutil.which("bash") is None:
            found.append(Problem("there is no bash on PATH", "PATH", "Install bash, or set another PATH."))
        if launcher(config, task) == "none" and config.ntasks_per_node > 1:
            found.append(
                Problem(
                    f"{config.ntasks_per_node} processes and nothing that starts them",
                    "ntasks_per_node",
                    "Use launcher torchrun, or 1.",
                )
            )
        if task.interpreter and shutil.which(task.interpreter[0], path=path) is None:
            what = f"there is no {task.interpreter[0]} that can be executed, which {task.recipe} asks for"
            found.append(Problem(what, "interpreter", "Install it, or change the script's first line."))
        if config.nsys_enabled and shutil.which("nsys", path=path) is None:
            fix = "Install NVIDIA Nsight Systems, put it on PATH, or turn nsys_enabled off."
            found.append(Problem("there is no nsys on PATH", "nsys_enabled", fix))
        found += _python(config, task, path)
    return list(dict.fromkeys(found))


def _python(config: LocalConfig, task: Task, path: str) -> list[Problem]:
    torchrun = launcher(config, task) == "torchrun"
    if task.language != "python" and not torchrun:
        return []
    name = config.python or sys.executable
    program = shutil.which(name, path=path)
    if program is None:
        return [Problem(f"there is no {name} that can be executed", "python", "Name another interpreter.")]
    if not torchrun:
        return []
    missing = interpreters.without_torch(program)
    if not missing:
        return []
    return [Problem(f"{missing}, which torchrun belongs to", "launcher", interpreters.REMEDY)]
