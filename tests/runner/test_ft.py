"""Ranks that ft_launcher starts again, by a stand-in: records and logs. The real one: executors/slurm/test_ft.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.ft import STAND_IN
from tests.runner.conftest import BatchJob

pytest.importorskip("torch")
MakeJob = Callable[..., BatchJob]
Write = Callable[..., Path]
#: Rank 1 fails in as many starts as the first argument says; the other waits to be ended, or for the last start.
FAILS = """
import os, sys, time
rank = int(os.environ["RANK"])
starts = len([name for name in os.listdir(".") if name.startswith(f"start-{rank}-")])
open(f"start-{rank}-{starts}", "w").close()
print("start", starts, "from", os.environ.get("NEMO_LAUNCH_RESTORE_FROM"), flush=True)
os.makedirs(os.environ["NEMO_LAUNCH_TASK_DIR"] + "/checkpoints/latest", exist_ok=True)
while not os.path.exists(f"start-{1 - rank}-{starts}"): time.sleep(0.05)
if starts < int(sys.argv[1]):
    if rank == 1: {}[f"broken {starts}"]
    time.sleep(600)
"""


def started(make_job: MakeJob, program: list[str | Path], *options: str, **values: Any) -> BatchJob:
    job = make_job(program, launcher="ft", ntasks_per_node=2, ft=[*options], **values)
    job.env["PYTHONPATH"] = str(STAND_IN)
    return job


def test_what_failed_before_the_last_start_is_history(make_job: MakeJob, write: Write) -> None:
    job = started(make_job, [write("x.py", FAILS), "2"], "--max-restarts=3", "--ft-rank-heartbeat-timeout=9.5")
    assert job.run() == 0
    assert job.outcome.failure is None
    assert (job.outcome.exit_code, job.outcome.reason) == (0, "")
    assert {path.name for path in job.ranks.glob("rank-*.*")} == {
        f"rank-{r}.{end}" for r in (0, 1) for end in ("ok", "log")
    }
    for number, folder in enumerate([None, *2 * [job.dir / "checkpoints" / "latest"]]):
        assert job.log.count(f"] start {number} from {folder}\n") == 2
        for rank in (0, 1):
            assert f"start {number} from" in (job.ranks / f"rank-{rank}.log").read_text()
    assert job.log.count("ft_launcher has started the ranks again") == 2
    (line,) = (line for line in job.log.splitlines() if line.startswith("ft_launcher stand-in: "))
    words = line.split()
    assert {"--nnodes=1", "--nproc-per-node=2", "--standalone", "--ignore-missing-fault-tol-cfg"} <= set(words)
    assert words[-2:] == ["--max-restarts=3", "--ft-rank-heartbeat-timeout=9.5"]


def test_the_failure_of_the_last_start_is_the_one_that_counts(make_job: MakeJob, write: Write) -> None:
    job = started(make_job, [write("x.py", FAILS), "9"], "--max-restarts=1", "--ft-cfg-path=x")
    assert job.run() == 1
    failure = job.outcome.failure
    assert failure and (failure.rank, failure.exception, failure.followed) == (1, "KeyError: 'broken 1'", 1)
    assert "--ignore-missing-fault-tol-cfg" not in job.log  # there is one


def test_without_the_package_reason_and_remedy_are_told(make_job: MakeJob, write: Write) -> None:
    job = started(make_job, [write("x.py", "print(1)")], "--max-restarts=1")
    del job.env["PYTHONPATH"]
    assert job.run() == 78
    assert job.record["cause"] == "ft"
    assert "has no ft_launcher" in job.record["message"]
    assert "Install nvidia-resiliency-ext" in job.record["message"]
