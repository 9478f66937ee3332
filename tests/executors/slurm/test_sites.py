"""Sites that differ: no accounting, and accounting that shows everybody's environment."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab import Lab, Launcher

#: A whole life of jobs through the executor, as the user and where the cluster is (which may be a network of its own).
PROGRAM = """
import json, os, sys, time
from nemo_launch.experiments import ledger
from nemo_launch.executors.slurm import SlurmExecutor
from nemo_launch.layout import ExperimentPaths
from nemo_launch.task import Task

folder, fields, tasks = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
executor = SlurmExecutor(mem="100M", **fields)
paths = ExperimentPaths(folder + "/home", "suite", "suite_1")
plans = []
for name, text in tasks.items():
    program = f"{folder}/{name}.sh"
    open(program, "w").write(text)
    task = Task(name, program, "shell", (program,), work_dir=folder, secrets=tuple(fields.get("secrets", ())))
    problems = executor.check([task])
    assert not problems, problems
    os.makedirs(paths.task(name).dir)
    plans.append(executor.plan(task, paths.task(name)))
book = ledger.FileLedger({plan.task.name: plan.paths for plan in plans})
executor.submit(plans, book)
jobs = [ledger.read_job(plan.task.name, plan.paths) for plan in plans]
deadline = time.monotonic() + 120
while time.monotonic() < deadline:
    seen = executor.poll(jobs)
    if "out" in tasks and seen[jobs[-1].key].state == "RUNNING":
        executor.cancel(jobs[-1:])
    if all(o.state.final for o in seen.values()):
        break
    time.sleep(0.3)
print(json.dumps({job.name: [seen[job.key].state, seen[job.key].exit_code, job.paths.job_dir] for job in jobs}))
"""


def life(launcher: Launcher, tasks: dict[str, str], **more: object) -> subprocess.Popen[str]:
    assert launcher.lab is not None
    env = launcher.env(PYTHONPATH=str(launcher.checkout), PYTHONDONTWRITEBYTECODE="1", **more.pop("env", {}))  # type: ignore[arg-type]
    argv = [str(launcher.python), "-c", PROGRAM, str(launcher.work), json.dumps(more), json.dumps(tasks)]
    return launcher.lab.popen_as_user(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def told(process: subprocess.Popen[str]) -> dict[str, list[object]]:
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    result: dict[str, list[object]] = json.loads(out)
    return result


def test_without_accounting(slurm_noacct: Lab, make_launcher: Callable[[Lab | None], Launcher]) -> None:
    tasks = {"good": "exit 0", "bad": "exit 7", "out": "sleep 60"}
    seen = told(life(make_launcher(slurm_noacct), tasks))
    assert {name: state for name, (state, *_) in seen.items()} == {
        "good": "SUCCEEDED", "bad": "FAILED", "out": "CANCELLED",
    }  # fmt: skip
    assert seen["bad"][1] == 7


def test_secrets_stay_out_of_accounting_that_shows_environments(
    slurm_jobenv: Lab, make_launcher: Callable[[Lab | None], Launcher]
) -> None:
    launcher = make_launcher(slurm_jobenv)
    text = 'echo ${#MY_TOKEN} > up; while [ ! -e go ]; do sleep 0.1; done; test "$MY_TOKEN" = s3cr3t-value'
    process = life(launcher, {"a": text}, secrets=["MY_TOKEN"], env={"MY_TOKEN": "s3cr3t-value"})
    deadline = time.monotonic() + 60
    while not (launcher.work / "up").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.2)
    (file,) = launcher.work.rglob("secrets/environment")
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600 and stat.S_IMODE(os.stat(file.parent).st_mode) == 0o700
    (job,) = slurm_jobenv.jobs(launcher.work)
    deadline = time.monotonic() + 60
    while "PATH=" not in (shown := slurm_jobenv.slurm("sacct", "-j", job, "--env-vars")):
        assert time.monotonic() < deadline, shown
        time.sleep(0.3)
    shown += slurm_jobenv.slurm("sacct", "-j", job, "--batch-script")
    assert "s3cr3t-value" not in shown
    Path(launcher.work / "go").touch()
    assert told(process)["a"][:2] == ["SUCCEEDED", 0]
    assert not file.exists()
