"""Options of pyxis, the container plug-in of srun: what is mounted and which variables win over the image's.

What pyxis does, as its documentation says: a variable of the image wins over the job's unless ``--container-env`` names
it; mounts are separated by commas and their parts by colons, with no way to quote; an image that is not a path is asked
for at a registry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from nemo_launch import environment, layout
from nemo_launch.config import nsys
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.errors import Problem
from nemo_launch.executors.slurm import commands
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task
from nemo_launch.transport import Transport

#: What this version may give to srun. Older ones of pyxis lack some.
OPTIONS = frozenset(
    [
        "container-image", "container-mounts", "container-workdir", "container-env", "container-name",
        "container-mount-home", "no-container-mount-home", "container-writable", "container-readonly",
    ]
)  # fmt: skip
#: What a pyxis without these options does anyway: containers were writable before one could choose.
_ALWAYS = {"container-writable"}


def supported(transport: Transport) -> frozenset[str]:
    """Which of ``OPTIONS`` srun has here; none: there is no pyxis."""
    done = transport.run(["srun", "--help"], env=commands.query(), timeout=commands.PATIENCE)
    return frozenset(re.findall(r"--((?:no-)?container-[a-z-]+)", done.stdout + done.stderr)) & OPTIONS


def problems(config: SlurmConfig, has: frozenset[str]) -> Iterator[Problem]:
    """What was asked for and srun cannot do here."""
    if "container-image" not in has:
        fix = "Leave the image out, or ask the site for pyxis."
        yield Problem("this site has no pyxis, so srun cannot start containers", "container_image", fix)
        return
    for option, field in _chosen(config).items():
        if option not in has and option not in _ALWAYS:
            what = f"the pyxis of this site has no --{option}"
            yield Problem(what, field, "Leave it out, or ask the site for a newer one.")


def _chosen(config: SlurmConfig) -> dict[str, str]:
    """Options that somebody must have asked for -> the field that says them."""
    home = {True: "container-mount-home", False: "no-container-mount-home"}
    writable = {True: "container-writable", False: "container-readonly"}
    found = {}
    if config.container_mount_home is not None:
        found[home[config.container_mount_home]] = "container_mount_home"
    if config.container_writable is not None:
        found[writable[config.container_writable]] = "container_writable"
    if config.container_name is not None:
        found["container-name"] = "container_name"
    return found


def srun_args(
    config: SlurmConfig, task: Task, paths: TaskPaths, secrets: Iterable[str], has: frozenset[str] = OPTIONS
) -> tuple[str, ...]:
    """What goes to srun for a container; nothing without an image. The name is added by the job, which knows its id."""
    if not config.container_image:
        return ()
    names = named(config, task, secrets) if "container-env" in has else []
    flags = [option for option in _chosen(config) if option in has and option != "container-name"]
    return (
        f"--container-image={config.container_image}",
        f"--container-mounts={','.join(mounts(config, task, paths))}",
        f"--container-workdir={config.container_workdir or task.work_dir}",
        *((f"--container-env={','.join(names)}",) if names else ()),
        *(f"--{option}" for option in flags),
    )


def named(config: SlurmConfig, task: Task, secrets: Iterable[str]) -> list[str]:
    """Variables whose values win over the image's. Those of ``TOOLS`` are set inside, if they were asked for."""
    never = {*environment.TOOLS}
    if task.language == "python":
        never.add("PYTHONPATH")  # put before the image's own, inside
    return sorted({*config.env_vars, *task.env, *secrets, *environment.folders(config)} - never)


def words(config: SlurmConfig, task: Task, has: frozenset[str]) -> tuple[str, ...]:
    """NAME=VALUE for the processes themselves, where pyxis cannot be told that they win over the image's."""
    if not config.container_image or "container-env" in has:
        return ()
    env = {**environment.folders(config), **config.env_vars, **task.env}
    return tuple(f"{name}={env[name]}" for name in named(config, task, ()))


def mounts(config: SlurmConfig, task: Task, paths: TaskPaths) -> list[str]:
    """Every mount: what the launcher needs, at the same place inside, then the user's."""
    return [*(f"{folder}:{folder}" for folder in _own(config, task, paths)), *map(str, config.container_mounts)]


def sources(config: SlurmConfig, task: Task, paths: TaskPaths) -> tuple[str, ...]:
    """What every node must have before a container can start."""
    if not config.container_image:
        return ()
    image = [config.container_image] if config.container_image.startswith("/") else []
    return tuple(dict.fromkeys([*image, *_own(config, task, paths), *(m.source for m in config.container_mounts)]))


def folders(config: SlurmConfig, task: Task) -> tuple[str, ...]:
    """What the job makes on every node if it is not there, before it looks for the sources."""
    made = {name: value for name, value in environment.folders(config).items() if name != "NEMO_LAUNCH_DATA_DIR"}
    made.update({name: value for name, value in config.env_vars.items() if name in ("HF_HOME", "TORCH_HOME")})
    made["nsys"] = nsys.folder(config, task.work_dir)
    return tuple(value for value in made.values() if value.startswith("/")) if config.container_image else ()


def notes(config: SlurmConfig, task: Task, paths: TaskPaths, has: frozenset[str]) -> Iterator[str]:
    """What the user should know about the containers of this launch."""
    if not config.container_image:
        return
    if config.cache_dir and not config.container_workdir and _two_mounts(config, task, _own(config, task, paths)):
        yield (
            f"{config.cache_dir} and {task.work_dir} are two mounts in the container: a program that downloads into "
            "the current directory and renames into the cache fails. A cache folder below the work dir prevents it"
        )
    if "container-env" not in has and any(environment.is_secret(name) for name in named(config, task, task.secrets)):
        yield "this pyxis has no --container-env: secrets that the image sets itself keep the image's values"


def _own(config: SlurmConfig, task: Task, paths: TaskPaths) -> list[str]:
    """The launcher's own folders, each once: one that lies in another comes with it."""
    needed = [task.work_dir, paths.job_dir]
    if task.code:
        needed.append(layout.snapshots(config.job_dir or layout.home()))
    needed += [folder for folder in (config.log_dir, config.cache_dir, config.data_dir) if folder]
    needed.append(nsys.folder(config, task.work_dir))
    found = _outermost(needed)
    if config.cache_dir and _two_mounts(config, task, found):
        # Together, so that a rename from the current directory into the cache stays within one mount.
        together = os.path.commonpath([os.path.normpath(task.work_dir), os.path.normpath(config.cache_dir)])
        if _may_be_mounted(together) and _device(task.work_dir) == _device(config.cache_dir):
            found = _outermost([together, *found])
    return found


def _outermost(paths: Iterable[str]) -> list[str]:
    given = list(dict.fromkeys(os.path.normpath(path) for path in paths if path))
    found = [path for path in given if not any(path != outer and _below(path, outer) for outer in given)]
    for path in given:
        # A link that leads out of the mount it lies in would lead nowhere inside.
        real = os.path.realpath(path)
        if path not in found and not any(_below(real, os.path.realpath(f)) or _below(real, f) for f in found):
            found.append(real)
    return found


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _two_mounts(config: SlurmConfig, task: Task, found: list[str]) -> bool:
    """Whether the current directory and the cache lie in different mounts."""
    places = [os.path.normpath(path) for path in (task.work_dir, config.cache_dir or "") if path]
    return len({next((f for f in reversed(found) if _below(place, f)), place) for place in places}) > 1


def _may_be_mounted(folder: str) -> bool:
    """Not all of a file system or of other people's folders, and no home with what programs find there unasked."""
    home = os.path.normpath(os.path.expanduser("~"))
    return folder.count("/") > 1 and not _below(home, folder)


def _device(path: str) -> int | None:
    """Of the file system that it is, or will be, on."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    try:
        return os.stat(path).st_dev
    except OSError:
        return None
