"""The status of very many tasks: 200 jobs of one experiment, and a job array of 1,000."""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator

import pairs

Row = tuple[str, str, float, "float | None", str]

_LAUNCH = """\
import sys
sys.path.insert(0, {checkout!r})
import nemo_launch as nl
with nl.Experiment({title!r}, executor=nl.SlurmExecutor(nl.SlurmConfig(sbatch_args=("--begin=now+1hour",)))) as exp:
    for number in range({count}):
        exp.add(nl.Script(inline="true"), name=f"t{{number}}")
    exp.run(detach=True)
"""


def rows(checkout: str, folder: str, env: dict[str, str], python: str, driver: str, rounds: int) -> Iterator[Row]:
    """Calls to the scheduler, then the time beside those very calls and a bare interpreter; jobs never start."""
    for title, count in (("many", 200), ("array", 1)):
        code = _LAUNCH.format(checkout=checkout, title=title, count=count)
        subprocess.run([python, "-c", code], env=env, capture_output=True, check=True, cwd=folder)
    _into_array(folder, env)
    for title, what in (("many", "200 jobs"), ("array", "an array of 1000")):
        status = [python, driver, "status", title]
        pairs.seconds(status, env)  # the first answer is kept in the jobs' folders
        calls = _calls(folder, env, status)
        floor = ["bash", "-c", "; ".join(calls)]
        times = pairs.in_turn(
            rounds,
            bare=lambda: pairs.seconds([python, "-c", "pass"], env),
            status=lambda status=status: pairs.seconds(status, env),  # type: ignore[misc]
            calls=lambda floor=floor: pairs.seconds(floor, env),  # type: ignore[misc]
        )
        yield (f"status of {what}", "scheduler call", float(len(calls)), 2, "")
        times["floor"] = [2 * call + bare for call, bare in zip(times["calls"], times["bare"], strict=True)]
        note = f"{1000 * sorted(times['status'])[rounds // 2]:.0f} ms"
        yield (f"status of {what}", "2 such calls + python", pairs.ratio(times, "status", "floor"), None, note)


def _into_array(folder: str, env: dict[str, str]) -> None:
    """Let the record of a task be that of an array, which is submitted by hand."""
    (path,) = glob.glob(f"{folder}/home/experiments/array/*/t0/handle.json")
    with open(path) as file:
        record = json.load(file)
    options = ["--parsable", "--array=0-999%10", "--begin=now+1hour", "--mem=10", "-o", "/dev/null"]
    script = os.path.join(os.path.dirname(path), "job.sh")
    done = subprocess.run(["sbatch", *options, script], env=env, capture_output=True, text=True, check=True)
    subprocess.run(["scancel", record["job_id"]], env=env, check=True)
    with open(path, "w") as file:
        json.dump({**record, "job_id": done.stdout.strip()}, file)


def _calls(folder: str, env: dict[str, str], command: list[str]) -> list[str]:
    """The scheduler's commands that a command runs, as words of a shell: programs before the real ones write them."""
    spies, log = os.path.join(folder, "spies"), os.path.join(folder, "spied")
    os.makedirs(spies, exist_ok=True)
    for name in ("squeue", "sacct", "scontrol", "sinfo"):
        path, real = os.path.join(spies, name), shutil.which(name, path=env["PATH"])
        with open(path, "w") as file:
            file.write(f'#!/bin/bash\nprintf \'%q \' {real} "$@" >>{log}\necho >>{log}\nexec {real} "$@"\n')
        os.chmod(path, stat.S_IRWXU)
    open(log, "w").close()
    pairs.seconds(command, {**env, "PATH": f"{spies}:{env['PATH']}"})
    with open(log) as file:
        return [f"{line.strip()} >/dev/null" for line in file]
