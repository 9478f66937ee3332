"""What stands against a request on this cluster. Asks, changes nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nemo_launch import environment, layout
from nemo_launch.config.durations import Duration
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.errors import Problem, Unreachable
from nemo_launch.executors import interpreters
from nemo_launch.executors.slurm import commands, containers
from nemo_launch.executors.slurm.query import SEPARATOR, unreachable
from nemo_launch.executors.slurm.render import launcher
from nemo_launch.task import Task
from nemo_launch.transport import CommandMissing, Completed, Transport

_SINFO = ("sinfo", "-a", "-h", "-o", SEPARATOR.join(("%P", "%a", "%l")))


class Partition(NamedTuple):
    """As sinfo shows it."""

    name: str
    state: str
    limit: str
    default: bool


def check(
    config: SlurmConfig, tasks: Sequence[Task], transport: Transport, given: Mapping[str, str], title: str = ""
) -> list[Problem]:
    """Every problem that can be known before anything is written.

    Raises:
        Unreachable: the cluster was asked and does not answer, so sbatch would not get through either.
    """
    found = [
        *_folders(config, tasks, title),
        *environment.of_request(config, tasks, given, os.environ),
    ]
    if config.container_image:
        found += _containers(config, tasks)
    else:
        found += _torch(config, tasks)
    try:
        if _ask(transport, ["sh", "-c", "command -v sbatch"]).returncode != 0:
            return [*found, Problem("sbatch is not on PATH", "slurm", "Run this on a login node of the cluster.")]
        conf = os.environ.get("SLURM_CONF")
        if _wanted(config) or (conf and not transport.exists(conf)):
            found += _partition(config, _answered(transport))
        if config.container_image:
            found += containers.problems(config, containers.supported(transport))
    except CommandMissing as error:
        found.append(Problem(str(error), "slurm"))
    except Unreachable as error:
        raise Unreachable(f"nothing was submitted: {error}{_where()}") from error
    return found


def _torch(config: SlurmConfig, tasks: Sequence[Task]) -> Iterator[Problem]:
    """An interpreter that is here, too, is taken for the nodes' (a shared folder); others are tried by the job."""
    program = config.python or sys.executable
    brings_its_own = config.setup or any("PYTHONPATH" in env for env in (config.env_vars, *(t.env for t in tasks)))
    wanted = any(launcher(config, task) in ("torchrun", "ft") for task in tasks)
    if not wanted or brings_its_own or not os.path.isabs(program) or not os.access(program, os.X_OK):
        return
    if missing := interpreters.without_torch(program):
        yield Problem(f"{missing}, which torchrun belongs to", "launcher", interpreters.REMEDY)


def _ask(transport: Transport, argv: Sequence[str]) -> Completed:
    return transport.run(argv, env=commands.query(), timeout=commands.PATIENCE)


def _where() -> str:
    """What the user can do about a cluster that is not found."""
    conf = os.environ.get("SLURM_CONF")
    if conf and not os.path.exists(conf):
        return f" SLURM_CONF names {conf}, which does not exist: set it to the cluster's slurm.conf, or unset it."
    return " Try again later, or ask the site."


def _answered(transport: Transport) -> list[Partition]:
    done = _ask(transport, _SINFO)
    if done.returncode != 0 and unreachable(done.stderr):
        said = done.stderr.strip().splitlines()[-1].removeprefix("sinfo: ").removeprefix("error: ")
        raise Unreachable(f"the cluster does not answer ({said.removeprefix('fatal: ').rstrip('.')}).")
    return _parsed(done)


def partitions(transport: Transport) -> list[Partition]:
    """All partitions; empty where the controller does not answer."""
    return _parsed(_ask(transport, _SINFO))


def _parsed(done: Completed) -> list[Partition]:
    found = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        fields = line.strip().split(SEPARATOR)
        if len(fields) == 3:
            name = fields[0].rstrip("*")
            found[name] = Partition(name, fields[1], fields[2], fields[0].endswith("*"))
    return list(found.values())


def listed(found: Sequence[Partition]) -> str:
    """``a3m (up, default), a3u (up)``."""
    return ", ".join(f"{p.name} ({p.state}{', default' if p.default else ''})" for p in found)


def _wanted(config: SlurmConfig) -> str | None:
    return config.partition or commands.site_defaults(config, os.environ).get("SBATCH_PARTITION")


def _partition(config: SlurmConfig, known: Sequence[Partition]) -> Iterator[Problem]:
    by_name = {partition.name: partition for partition in known}
    named = _wanted(config)
    wanted = named.split(",") if named else []
    for name in wanted if known else ():
        if name not in by_name:
            best = sorted(known, key=lambda p: (p.state != "up", not p.default))[0]
            fix = f"The partitions are: {listed(known)}. Try --partition {best.name}."
            yield Problem(f"there is no partition {name!r} on this cluster", "partition", fix)
    limits = [_limit(by_name[name].limit) for name in wanted if name in by_name]
    if config.time and limits and all(limit is not None and config.time > limit for limit in limits):
        longest = max(limit for limit in limits if limit is not None)
        yield Problem(f"{config.time} is more than partition {','.join(wanted)} allows, which is {longest}", "time")


def _limit(text: str) -> Duration | None:
    try:
        return Duration.parse(text)
    except ValueError:  # infinite
        return None


def _folders(config: SlurmConfig, tasks: Sequence[Task], title: str) -> Iterator[Problem]:
    for name in ("job_dir", "log_dir"):
        path = getattr(config, name) or ""
        if found := re.search(r"%[0-9]*[AaJjNnstuxb]", path):
            fix = "Give a folder with a fixed name; each job has one of its own below it."
            yield Problem(f"{path!r}: Slurm does not replace {found[0]} in the name of a folder", name, fix)
    # With a backslash in the log's path sbatch gives up on the job's id in its name.
    base = ("job_dir", config.job_dir) if config.job_dir else ("NEMORUN_HOME", layout.home())
    for name, folder in (base, ("title", title), *(("task", task.name) for task in tasks if task.name != title)):
        if "\\" in folder:
            yield Problem(f"{folder!r} has a backslash, which Slurm takes out of the log's path", name)


def _containers(config: SlurmConfig, tasks: Sequence[Task]) -> Iterator[Problem]:
    """Folders that the launcher itself must mount; pyxis has no way to quote (the user's own: ``config.rules``)."""
    given = {config.work_dir, config.log_dir, config.cache_dir, config.data_dir, config.job_dir or layout.home()}
    for path in dict.fromkeys(filter(None, (*given, *(task.work_dir for task in tasks)))):
        if bad := re.search(r"[\s,:]", path):
            fix = "Use another path."
            yield Problem(f"{path!r} holds {bad[0]!r}, which pyxis cannot mount", "container_image", fix)
