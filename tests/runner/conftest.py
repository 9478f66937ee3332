"""Jobs made from the batch script, run by bash on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.executors.base import Handle, Job
from nemo_launch.executors.outcome import Outcome, read_outcomes
from nemo_launch.layout import TaskPaths
from nemo_launch.runner import batch_script, files
from nemo_launch.transport import LocalTransport

#: What srun does for the skeleton, on one machine: every rank gets its number, one failure ends the others.
FAKE_SRUN = r"""#!/bin/bash
printf '%s\n' "$@" >"${0%/*}/options"
ranks=1
while [[ $1 = --* ]]; do
  case $1 in --ntasks=*) ranks=${1#*=} ;; esac
  shift
done
pids=()
set -m # each rank a group: srun signals every process of the step
for signal in USR2 TERM; do
  # shellcheck disable=SC2064
  trap "caught=1; kill -$signal -- \"\${pids[@]/#/-}\"" $signal
done
for ((i = 0; i < ranks; i++)); do
  SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_NODEID=0 SLURM_NTASKS=$ranks SLURM_STEP_ID=0 "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  while caught=; wait "$pid"; rc=$?; [[ $caught ]]; do :; done
  [[ $rc = 0 ]] || code=$rc
done
exit $code
"""


def until(condition: Callable[[], Any], seconds: float = 90.0) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise TimeoutError("it did not happen")


@dataclass
class BatchJob:
    """A job's folder with its script and runner files."""

    dir: Path
    env: dict[str, str] = field(default_factory=dict)
    id: str = "77"
    restart: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """Start it; its log is appended to, as schedulers do."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["bash", self.dir / "job.sh"],
                env={**self.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process

    def run(self, **env: str) -> int:
        """Run it to its end; its exit code."""
        return self.start(**env).wait(150)

    @property
    def log_path(self) -> Path:
        return self.dir / f"{self.id}.log"

    @property
    def log(self) -> str:
        return self.log_path.read_bytes().decode()

    @property
    def ranks(self) -> Path:
        return self.dir / f"ranks-{self.id}-{self.restart}"

    @property
    def record(self) -> dict[str, Any]:
        """The exit record."""
        value = json.loads((self.dir / f"exit-{self.id}-{self.restart}.json").read_bytes())
        assert isinstance(value, dict)
        return value

    @property
    def outcome(self) -> Outcome:
        """What the launcher makes of it."""
        job = Job("task", TaskPaths(str(self.dir), str(self.dir)), Handle(self.id))
        return read_outcomes(LocalTransport(), [job])[job.key]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name needs quoting wherever it goes."""
    path = tmp_path / 'it\'s "a" $HOME [x] *'
    path.mkdir()
    return path


@pytest.fixture
def make_job(folder: Path) -> Iterator[Callable[..., BatchJob]]:
    """``make_job(program=[…], launcher=…)``: a job that is ready to start; names are the skeleton's without nl_."""
    made: list[BatchJob] = []

    def make(program: Sequence[str | Path], name: str = "job", **values: Any) -> BatchJob:
        directory = folder / name
        (directory / "runner").mkdir(parents=True)
        known: dict[str, Any] = {
            "scheduler": "local",
            "experiment": "demo_1",
            "task": "task",
            "job_dir": str(directory),
            "work_dir": str(folder),
            "launcher": "none",
            "language": "python",
            "python": sys.executable,
            "program": [str(word) for word in program],
            **values,
        }
        for file, data in files(known["language"], known["launcher"], nsys="nsys" in known).items():
            (directory / "runner" / file).write_bytes(data)
        text = batch_script([], {f"nl_{key}": value for key, value in known.items()})
        (directory / "job.sh").write_bytes(text.encode("utf-8", "surrogateescape"))
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NEMO_LAUNCH_JOB_ID": "77"}
        if known["scheduler"] == "slurm":
            (folder / "bin").mkdir(exist_ok=True)
            (folder / "bin" / "srun").write_text(FAKE_SRUN)
            (folder / "bin" / "srun").chmod(0o755)
            env |= {"PATH": f"{folder / 'bin'}:{env['PATH']}", "SLURM_JOB_ID": "77", "SLURMD_NODENAME": "node-0"}
            env |= {"SLURM_JOB_CPUS_PER_NODE": "16(x2),8", "SLURM_JOB_NODELIST": "node-[0-2]"}
        made.append(BatchJob(directory, env))
        return made[-1]

    yield make
    for job in made:
        if job.process and job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """``write("name.py", text)``: a file in the work dir."""

    def make(name: str, text: str) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return make
