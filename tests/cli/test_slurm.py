"""run.py on a real Slurm cluster, by a user without rights."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from subprocess import PIPE

from tests.lab import Launcher

BLOCK = r"""Experiment Status for demo_\d+

Task 0: demo
- Status: (PENDING|RUNNING|SUCCEEDED)
- Executor: SlurmExecutor on @localhost
- Job id: (\d+)
- Local Directory: (/.*/experiments/demo/demo_\d+/demo)
"""


def test_the_block_is_printed_and_the_launcher_returns(slurm_launcher: Launcher) -> None:
    slurm_launcher.write("a.sh", "echo hello\n")
    words = ["-e", "slurm", "-p", "a3m", "-s", "a.sh", "--experiment-name", "demo"]
    done = slurm_launcher(*words)
    assert done.returncode == 0, done.stderr
    block = re.match(BLOCK, done.stdout)
    assert block, done.stdout
    done = slurm_launcher("status", "demo", "--wait")
    assert (done.returncode, "- Status: SUCCEEDED\n" in done.stdout) == (0, True)
    assert slurm_launcher("logs", "demo").stdout == "hello\n"
    assert Path(block[3], f"{block[2]}.log").read_text() == "hello\n"


def test_the_default_partition_is_documented_and_its_absence_explained(slurm_launcher: Launcher) -> None:
    slurm_launcher.write("a.sh", "true\n")
    done = slurm_launcher("-e", "slurm", "-s", "a.sh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no partition 'general'" in done.stderr
    assert "a3m" in done.stderr and "a3u" in done.stderr
    assert not list(slurm_launcher.runs.rglob("*"))
    dry = slurm_launcher("-e", "slurm", "-s", "a.sh", "--dry-run", env={"SBATCH_PARTITION": "a3u"})
    assert dry.returncode == 0, dry.stderr
    assert "--partition" not in dry.stdout
    assert "SBATCH_PARTITION=a3u" in dry.stdout


def test_a_dry_run_is_what_is_submitted(slurm_launcher: Launcher) -> None:
    slurm_launcher.write("a.sh", 'echo "$@"\n')
    words = ["-e", "slurm", "-p", "a3m", "-s", "a.sh", "-n", "2", "--time", "5", "--json", "a b", "$HOME"]
    dry = json.loads(slurm_launcher("--dry-run", *words).stdout)
    assert not list(slurm_launcher.runs.rglob("*"))
    real = json.loads(slurm_launcher("--wait", *words).stdout)
    [task] = dry["tasks"]
    submitted = Path(real["tasks"][0]["directory"], "job.sh").read_text()
    assert task["script"].replace(dry["experiment"]["id"], real["experiment"]["id"]) == submitted
    assert real["tasks"][0]["state"] == "SUCCEEDED"


def test_following_shows_the_log_and_ends_with_the_job(slurm_launcher: Launcher) -> None:
    slurm_launcher.write("a.sh", "echo one; sleep 1; echo two; exit 7\n")
    done = slurm_launcher("-e", "slurm", "-p", "a3m", "-s", "a.sh", "--follow")
    assert done.returncode == 1
    assert done.stdout.startswith("one\ntwo\n")
    assert "- Exit code: 7\n" in done.stdout
    assert "exit code 7" in done.stderr


def test_questions_about_many_experiments_ask_the_scheduler_once(slurm_launcher: Launcher) -> None:
    shims, calls = slurm_launcher.work / "bin", slurm_launcher.work / "calls"
    real = {name: shutil.which(name) for name in ("squeue", "sacct")}
    for name, path in real.items():
        slurm_launcher.write(f"bin/{name}", f'#!/bin/sh\necho {name} >> {calls}\nexec {path} "$@"\n', 0o755)
    env = {"PATH": f"{shims}:{slurm_launcher.env()['PATH']}"}
    titles = ["one", "two", "three"]
    slurm_launcher.write("a.sh", "sleep 1\n")
    for title in titles:
        slurm_launcher("-e", "slurm", "-p", "a3m", "-s", "a.sh", "--experiment-name", title, "--detach")
    for words in (["list"], ["status", *titles]):
        slurm_launcher(*words, env=env)
        asked = calls.read_text().split() if calls.exists() else []
        assert all(asked.count(name) <= 1 for name in real), (words, asked)
        calls.unlink(missing_ok=True)


def test_ctrl_c_detaches_and_the_job_goes_on(slurm_launcher: Launcher) -> None:
    slurm_launcher.write("a.sh", "echo ready; sleep 60\n")
    process = slurm_launcher.start("-e", "slurm", "-p", "a3m", "-s", "a.sh", "--follow", stdout=PIPE, stderr=PIPE)
    assert process.stdout
    for line in process.stdout:
        if line == "ready\n":
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert re.search(r"run.py logs -f a_\d+", err)
    assert re.search(r"run.py cancel a_\d+", err)
    assert "- Status: RUNNING\n" in slurm_launcher("status").stdout
    assert "- Status: CANCELLED\n" in slurm_launcher("cancel", "a").stdout
