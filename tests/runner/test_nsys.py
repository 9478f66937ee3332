"""Programs under nsys profile, by a stand-in (tests/lab/nsys): signals, exit codes, records and logs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.nsys import STAND_IN
from tests.runner.conftest import BatchJob, until

MakeJob = Callable[..., BatchJob]
Write = Callable[..., Path]
NODE = os.uname().nodename.split(".")[0]
OPTIONS = ["--trace=cuda,nvtx", "--kill=none", "--force-overwrite=true"]
FAILS = """
import os, sys, traceback
try: {}["x"]
except KeyError: traceback.print_exc(); sys.exit(7)
"""
SAVES = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("begun", flush=True)
while not told: time.sleep(0.05)
time.sleep(0.5); print("saved", len(told), flush=True); sys.exit(5)
"""


def profiled(make_job: MakeJob, program: list[str | Path], standin: str = "", **values: Any) -> BatchJob:
    job = make_job(program, nsys=OPTIONS, **values)
    job.env |= {"PATH": f"{STAND_IN.parent}:{job.env['PATH']}", "STANDIN": standin}
    return job


def reports(job: BatchJob) -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in job.dir.glob("*.nsys-rep")}


@pytest.mark.parametrize("standin", ["", "zero", "group", "early"])
def test_exit_code_and_exception_are_the_program_s_and_the_report_is_there(
    make_job: MakeJob, write: Write, standin: str
) -> None:
    job = profiled(make_job, [write("x.py", FAILS)], standin)
    assert job.run() == 7
    failure = job.outcome.failure
    assert failure and (failure.exit_code, failure.exception) == (7, "KeyError: 'x'")
    name = f"profile-77-0-{NODE}.nsys-rep"
    assert list(reports(job)) == [name]
    assert reports(job)[name][:3] == OPTIONS
    assert f"report of nsys: {job.dir / name}\n" in job.log


@pytest.mark.parametrize("standin", ["", "group", "early"])
@pytest.mark.parametrize("launcher", ["none", "torchrun"])
def test_term_reaches_the_program_once_and_not_nsys(
    make_job: MakeJob, write: Write, standin: str, launcher: str
) -> None:
    if launcher == "torchrun":
        pytest.importorskip("torch")
    job = profiled(make_job, [write("x.py", SAVES)], standin, launcher=launcher)
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert job.log.count("saved 1\n") == 1
    assert job.record["cause"] == "signal"
    assert len(reports(job)) == 1


@pytest.mark.parametrize("chosen", ["USR1", "WINCH"])
def test_a_shell_program_gets_its_signals_although_nsys_ignores_them(
    make_job: MakeJob, write: Write, chosen: str
) -> None:
    script = write(
        "x.sh",
        f"trap 'echo saved' {chosen}; trap 'echo ended; exit 4' TERM; echo begun\nwhile :; do sleep 0.1; done\n",
    )
    job = profiled(make_job, [script], language="shell", signal=chosen)
    process = job.start()
    until(lambda: "begun" in job.log)
    os.killpg(_group(job), getattr(signal, f"SIG{chosen}"))
    until(lambda: "saved" in job.log)
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert "ended" in job.log
    assert len(reports(job)) == 1


def _group(job: BatchJob) -> int:
    (pid,) = job.ranks.glob("nsys-*.pid")
    return os.getpgid(int(pid.read_text()))


def test_without_nsys_the_reason_and_the_remedy_are_told(make_job: MakeJob, write: Write, folder: Path) -> None:
    job = make_job([write("x.py", f"open({str(folder / 'ran')!r}, 'w')")], nsys=OPTIONS)
    job.env["PATH"] = "/usr/bin:/bin"
    assert job.run() == 127
    assert job.record["cause"] == "nsys"
    assert job.record["message"].startswith(f"there is no nsys on {NODE}")
    assert "turn nsys_enabled off" in job.record["message"]
    assert not (folder / "ran").exists()


def test_an_nsys_that_does_not_start_the_program_is_told(make_job: MakeJob, write: Write) -> None:
    job = profiled(make_job, [write("x.py", "print(1)")], "refuses")
    assert job.run() != 0
    assert "did not start the program" in job.record["message"]
    assert "unrecognised option" in job.log


def test_under_srun_the_first_rank_of_the_node_or_those_that_were_named(make_job: MakeJob, write: Write) -> None:
    script = write("x.py", "import os; print('rank', os.environ['RANK'])")
    values: dict[str, Any] = {"scheduler": "slurm", "launcher": "srun", "ntasks_per_node": 3}
    job = profiled(make_job, [script], **values)
    assert job.run() == 0
    assert {name: lines[-1] for name, lines in reports(job).items()} == {"profile-77-0-node-0.nsys-rep": "RANK=0"}
    job = profiled(make_job, [script], name="named", nsys_ranks=["0", "2"], **values)
    assert job.run() == 0
    assert {name: lines[-1] for name, lines in reports(job).items()} == {
        f"profile-77-0-rank{rank}-node-0.nsys-rep": f"RANK={rank}" for rank in (0, 2)
    }
    assert job.log.count("] rank ") == 3
    assert {path.name for path in job.ranks.glob("rank-*.ok")} == {f"rank-{rank}.ok" for rank in range(3)}


def test_ranks_of_torchrun(make_job: MakeJob, write: Write) -> None:
    pytest.importorskip("torch")
    script = write("x.py", "import os; print('rank', os.environ['RANK'])")
    job = profiled(make_job, [script], launcher="torchrun", ntasks_per_node=2, nsys_ranks=["1"])
    assert job.run() == 0
    assert {name: lines[-1] for name, lines in reports(job).items()} == {
        f"profile-77-0-rank1-{NODE}.nsys-rep": "RANK=1"
    }


def test_the_configured_output(make_job: MakeJob, write: Write, folder: Path) -> None:
    script = write("x.py", "")
    job = profiled(make_job, [script], nsys_output=f"{folder}/new/it's %h")
    assert job.run() == 0
    assert [path.name for path in (folder / "new").iterdir()] == [f"it's {os.uname().nodename}.nsys-rep"]
    job = profiled(make_job, [script], name="again", nsys_output=f"{folder}/folder/")
    assert job.run() == 0
    assert [path.name for path in (folder / "folder").iterdir()] == [f"profile-77-0-{NODE}.nsys-rep"]
