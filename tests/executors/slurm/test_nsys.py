"""Profiling on the real cluster: what each field does inside the job. nsys is a stand-in (tests/lab/nsys)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nemo_launch.executors.base import State
from tests.conformance.site import Run, Site
from tests.lab.nsys import STAND_IN

SAVES = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("begun", flush=True)
while not told: time.sleep(0.05)
time.sleep(0.5); print("saved", len(told), flush=True)
"""
PATH = {"PATH": f"{STAND_IN.parent}:{os.environ['PATH']}"}


def options(report: Path) -> set[str]:
    return {line for line in report.read_text().splitlines() if line.startswith("--")}


def launched(site: Site, text: str, *, python: bool = False, **fields: object) -> tuple[Run, Path]:
    run = site.launch(site.task("demo", text, python=python), nsys_enabled=True, env_vars=PATH, **fields)
    return run, Path(run.where("demo").dir)


def test_one_report_for_each_node_under_torchrun_with_all_its_ranks(site: Site) -> None:
    run, folder = launched(site, "#!/bin/sh\necho here\n", launcher="torchrun", nodes=2, ntasks_per_node=2)
    seen = run.wait(180)["demo"]
    assert seen.state is State.SUCCEEDED, run.logs()
    (job,) = run.jobs()
    nodes = set(re.findall(r"^\[([\w-]+):\d\] here$", run.log("demo"), re.MULTILINE))
    reports = sorted(path.name for path in folder.glob("*.nsys-rep"))
    assert len(reports) == 2
    assert all(name.startswith(f"profile-{job.handle}-0-") for name in reports)
    assert {name.split("-0-", 1)[1].removesuffix(".nsys-rep") for name in reports} == nodes
    made = {"--trace=cuda,nvtx", "--kill=none", "--sample=none", "--force-overwrite=true"}
    assert options(folder / reports[0]) - made == {f"--output={folder / reports[0].removesuffix('.nsys-rep')}"}
    assert run.log("demo").count("nemo_launch: report of nsys: ") == 2


def test_the_exit_code_is_the_program_s(site: Site) -> None:
    run, _ = launched(site, "#!/bin/sh\nexit 6\n", nodes=2, ntasks_per_node=2)
    seen = run.wait()["demo"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 6), run.logs()
    assert seen.failure and seen.failure.exit_code == 6


def test_every_option_stands_in_the_reports(site: Site) -> None:
    run, _ = launched(
        site, "#!/bin/sh\nexit 0\n", launcher="srun", nodes=2, ntasks_per_node=2, nsys_trace="osrt",
        nsys_capture_range="cudaProfilerApi", nsys_capture_range_end="repeat:2", nsys_ranks=[1, 2],
        nsys_output="reports/%h-%p", nsys_args=["--cuda-memory-usage=true", "--sample=cpu"],
    )  # fmt: skip
    assert run.wait()["demo"].state is State.SUCCEEDED, run.logs()
    reports = list((site.folder / "reports").iterdir())
    assert sorted(path.read_text().splitlines()[-1] for path in reports) == ["RANK=1", "RANK=2"]
    for path in reports:
        assert options(path) == {
            "--trace=osrt", "--kill=none", "--force-overwrite=true", "--capture-range=cudaProfilerApi",
            "--capture-range-end=repeat:2", "--cuda-memory-usage=true", "--sample=cpu",
            f"--output={site.folder}/reports/%h-%p",
        }  # fmt: skip


def test_a_cancelled_job_saves_once_and_its_report_is_written(site: Site) -> None:
    run, folder = launched(site, SAVES, python=True, launcher="none")
    run.until(lambda _: "begun" in run.log("demo"))
    run.cancel()
    assert run.wait()["demo"].state is State.CANCELLED
    run.until(lambda _: "saved" in run.log("demo"))
    assert run.log("demo").count("saved 1\n") == 1
    run.until(lambda _: bool(list(folder.glob("*.nsys-rep"))))


def test_a_node_without_nsys_is_told_with_the_remedy(site: Site) -> None:
    text = "#!/bin/sh\ntouch ran\n"
    path = {"PATH": "/usr/bin:/bin"}
    run = site.launch(site.task("demo", text), nsys_enabled=True, env_vars=path, nodes=2, launcher="torchrun")
    seen = run.wait()["demo"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 127), run.logs()
    assert "there is no nsys on " in seen.reason
    assert "turn nsys_enabled off" in seen.reason
    assert not (site.folder / "ran").exists()
