"""Options of pyxis, the container plug-in of srun: what is mounted and which variables win over the image's."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nemo_launch import environment, layout
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task

#: The host's would replace the image's.
_NEVER_NAMED = {*environment.TOOLS, "PYTHONPATH", "HOME"}


def srun_args(config: SlurmConfig, task: Task, paths: TaskPaths, secrets: Iterable[str]) -> tuple[str, ...]:
    """What goes to srun for a container; nothing without an image."""
    if not config.container_image:
        return ()
    names = sorted({*config.env_vars, *task.env, *secrets, *environment.folders(config)} - _NEVER_NAMED)
    home = {True: ("--container-mount-home",), False: ("--no-container-mount-home",), None: ()}
    return (
        f"--container-image={config.container_image}",
        f"--container-mounts={','.join(mounts(config, task, paths))}",
        f"--container-workdir={config.container_workdir or task.work_dir}",
        *((f"--container-env={','.join(names)}",) if names else ()),
        *home[config.container_mount_home],
    )


def mounts(config: SlurmConfig, task: Task, paths: TaskPaths) -> list[str]:
    """Every mount: what the launcher needs, at the same place inside, then the user's."""
    needed = [task.work_dir, paths.job_dir]
    if task.code:
        needed.append(layout.snapshots(config.job_dir or layout.home()))
    needed += [folder for folder in (config.log_dir, config.cache_dir, config.data_dir) if folder]
    folders: list[str] = []
    for folder in (os.path.normpath(path) for path in needed if path):
        if not any(folder == outer or folder.startswith(outer.rstrip("/") + "/") for outer in folders):
            folders.append(folder)
    return [*(f"{folder}:{folder}" for folder in folders), *map(str, config.container_mounts)]
