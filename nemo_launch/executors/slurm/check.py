"""What stands against a request on this cluster. Asks, changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nemo_launch import environment, records
from nemo_launch.config.durations import Duration
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.errors import Problem, Unreachable
from nemo_launch.executors.slurm import commands
from nemo_launch.executors.slurm.query import SEPARATOR
from nemo_launch.task import Task
from nemo_launch.transport import CommandMissing, Transport


class Partition(NamedTuple):
    """As sinfo shows it."""

    name: str
    state: str
    limit: str
    default: bool


def check(
    config: SlurmConfig, tasks: Sequence[Task], transport: Transport, given: Mapping[str, str], title: str = ""
) -> list[Problem]:
    """Every problem that can be known before anything is written."""
    found = [
        *_folders(config, tasks, title),
        *environment.of_request(config, tasks, given, os.environ),
    ]
    if config.container_image:
        found += _containers(config, tasks)
    try:
        if transport.run(["sh", "-c", "command -v sbatch"], env=commands.query()).returncode != 0:
            return [*found, Problem("sbatch is not on PATH", "slurm", "Run this on a login node of the cluster.")]
        found += _partition(config, partitions(transport)) if _wanted(config) else []
        if config.container_image:
            found += _pyxis(transport)
    except CommandMissing as error:
        found.append(Problem(str(error), "slurm"))
    except Unreachable:
        pass  # sbatch will say so
    return found


def partitions(transport: Transport) -> list[Partition]:
    """All partitions; empty where the controller does not answer."""
    argv = ["sinfo", "-a", "-h", "-o", SEPARATOR.join(("%P", "%a", "%l"))]
    done = transport.run(argv, env=commands.query())
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
    wanted = (_wanted(config) or "").split(",")
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
    for name in ("job_dir", "log_dir", "work_dir"):
        path = getattr(config, name) or ""
        if found := re.search(r"%[0-9]*[AaJjNnstuxb]", path):
            fix = "Give a folder with a fixed name; each job has one of its own below it."
            yield Problem(f"{path!r}: Slurm does not replace {found[0]} in the name of a folder", name, fix)
    # With a backslash in the log's path sbatch gives up on the job's id in its name.
    base = ("job_dir", config.job_dir) if config.job_dir else ("NEMORUN_HOME", records.home())
    for name, folder in (base, ("title", title), *(("task", task.name) for task in tasks if task.name != title)):
        if "\\" in folder:
            yield Problem(f"{folder!r} has a backslash, which Slurm takes out of the log's path", name)


def _containers(config: SlurmConfig, tasks: Sequence[Task]) -> Iterator[Problem]:
    """Folders that the launcher itself must mount; pyxis has no way to quote (the user's own: ``config.rules``)."""
    given = {config.work_dir, config.log_dir, config.cache_dir, config.data_dir, config.job_dir or records.home()}
    for path in dict.fromkeys(filter(None, (*given, *(task.work_dir for task in tasks)))):
        if bad := re.search(r"[\s,:]", path):
            fix = "Use another path."
            yield Problem(f"{path!r} holds {bad[0]!r}, which pyxis cannot mount", "container_image", fix)


def _pyxis(transport: Transport) -> Iterator[Problem]:
    done = transport.run(["srun", "--help"], env=commands.query())
    if "--container-image" not in done.stdout + done.stderr:
        fix = "Leave the image out, or ask the site for pyxis."
        yield Problem("this site has no pyxis, so srun cannot start containers", "container_image", fix)
