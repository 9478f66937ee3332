"""The rows that need a cluster: one launch, fifty submissions, the status of a hundred tasks."""

from __future__ import annotations

import glob
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator

import pairs
import status_rows

Row = tuple[str, str, float, "float | None", str]

_FIFTY = """\
import sys, time
sys.path.insert(0, {checkout!r})
import nemo_launch as nl
with nl.Experiment("fifty", executor=nl.SlurmExecutor(nl.SlurmConfig(sbatch_args=("--begin=now+1hour",)))) as exp:
    for number in range({count}):
        exp.add(nl.Script(inline="true"), name=f"t{{number}}")
    start = time.perf_counter()
    exp.run(detach=True)
    print(exp.id, time.perf_counter() - start)
"""

_SUBMITIT = """\
import sys, time, submitit
executor = submitit.SlurmExecutor(folder={folder!r})
start = time.perf_counter()
for number in range({count}):
    executor.submit(print, number)
print(time.perf_counter() - start)
"""


def cluster_environment(checkout: str) -> dict[str, str] | None:
    """Environment in which sbatch reaches a cluster; None: there is none."""
    env = dict(os.environ)
    if shutil.which("sinfo") and subprocess.run(["sinfo", "-h"], env=env, capture_output=True).returncode == 0:
        return env
    if os.geteuid() != 0:
        return None
    lab = os.path.join(checkout, "tests", "lab", "slurm-up.sh")
    if subprocess.run(["bash", lab], stdout=subprocess.DEVNULL).returncode:
        return None
    folder = os.environ.get("NEMO_LAUNCH_LAB", "/var/tmp/nemo-launch-lab")
    return {**env, "SLURM_CONF": os.path.join(folder, "etc", "slurm.conf")}


def rows(checkout: str, folder: str, env: dict[str, str], rounds: int) -> Iterator[Row]:
    """All rows; jobs are ended afterwards."""
    python, driver = sys.executable, os.path.join(checkout, "run.py")
    env = {**env, "NEMORUN_HOME": os.path.join(folder, "home")}
    script = os.path.join(folder, "task.sh")
    with open(script, "w") as file:
        file.write("#!/bin/sh\nexit 0\n")
    launch = [
        python,
        driver,
        "-e",
        "slurm",
        "--partition",
        "a3m",
        "-d",
        folder,
        "-s",
        script,
        "--experiment-name",
        "one",
    ]

    def one() -> float:
        return pairs.seconds([*launch, "--detach", "--again"], env)

    def sbatch() -> float:
        (job, *_) = sorted(glob.glob(f"{folder}/home/experiments/one/*/one/job.sh"))
        return pairs.seconds(["sbatch", "--parsable", job], env)

    try:
        one()
        times = pairs.in_turn(
            rounds, bare=lambda: pairs.seconds([python, "-c", "pass"], env), launch=one, sbatch=sbatch
        )
        over = pairs.ratio(times, "launch", "bare", minus="sbatch")
        yield ("launch one script, less sbatch's own time", "python -c pass", over, 20, "")
        yield from _fifty(checkout, folder, env, python)
        yield from _status(folder, env, python, driver)
        yield from status_rows.rows(checkout, folder, env, python, driver, rounds)
    finally:
        _end_jobs(folder, env)


def _end_jobs(folder: str, env: dict[str, str]) -> None:
    """Cancel what was submitted from here; whoever measures may have other jobs on the cluster."""
    shown = subprocess.run(["squeue", "-h", "--me", "-o", "%i\t%o"], env=env, capture_output=True, text=True).stdout
    ours = [row.split("\t")[0] for row in shown.splitlines() if row.partition("\t")[2].startswith(f"{folder}/")]
    if ours:
        subprocess.run(["scancel", *ours], env=env, capture_output=True)


def _fifty(checkout: str, folder: str, env: dict[str, str], python: str, count: int = 50) -> Iterator[Row]:
    """The same script to the same cluster both ways; held back (--begin), so that no job runs beside the clock."""
    ours, floor = [], []
    for _ in range(5):
        code = _FIFTY.format(checkout=checkout, count=count)
        done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=folder)
        ours.append(float(done.stdout.split()[-1]))
        (job, *_) = sorted(glob.glob(f"{folder}/home/experiments/fifty/*/t0/job.sh"))
        start = time.perf_counter()
        for _ in range(count):
            pairs.seconds(["sbatch", "--parsable", job], env)
        floor.append(time.perf_counter() - start)
    times = {"ours": ours, "floor": floor}
    yield (f"submit {count} tasks", f"{count} bare sbatch", pairs.ratio(times, "ours", "floor"), 2, "")
    peer = _SUBMITIT.format(folder=os.path.join(folder, "submitit"), count=count)
    done = subprocess.run([python, "-c", peer], env=env, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        yield (f"peer: submitit submits {count}", f"{count} bare sbatch", float(done.stdout) / min(floor), None, "")


def _status(folder: str, env: dict[str, str], python: str, driver: str) -> Iterator[Row]:
    """Scheduler calls for the status of two experiments of fifty tasks, counted by programs before the real ones."""
    ids = sorted(os.listdir(f"{folder}/home/experiments/fifty"))[-2:]
    counting = os.path.join(folder, "counting")
    os.makedirs(counting, exist_ok=True)
    calls = os.path.join(folder, "calls")
    for name in ("squeue", "sacct", "scontrol", "sinfo"):
        real = shutil.which(name, path=env["PATH"])
        path = os.path.join(counting, name)
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\necho {name} >>{calls}\nexec {real} "$@"\n')
        os.chmod(path, stat.S_IRWXU)
    spy = {**env, "PATH": f"{counting}:{env['PATH']}"}
    open(calls, "w").close()
    spent = pairs.seconds([python, driver, "status", *ids], spy)
    with open(calls) as file:
        made = file.read().split()
    note = f"{' '.join(made) or 'none'}; {spent * 1000:.0f} ms"
    yield ("status of 100 tasks", "scheduler call", float(len(made)), 2, note)
