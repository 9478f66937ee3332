"""The same launch again after one that was cut off: on this machine, no cluster is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import Experiment, LocalExecutor, Script, State, identity, layout, records
from nemo_launch.executors.base import Handle, Job, Observation, Recovery
from nemo_launch.experiments import adopting, observing

#: The job succeeds once the user has made the file "repaired".
LAUNCH = """
import os, sys
from nemo_launch import Experiment, LocalExecutor, Script
experiment = Experiment("cut", LocalExecutor(work_dir=sys.argv[1]))
experiment.add(Script("job.sh", args=[sys.argv[1]]))
experiment.launch()
os.kill(os.getpid(), 9)
"""
JOB = '#!/bin/bash\necho ran >> "$1/../ran"\ntest -e "$1/../repaired"\n'


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "job.sh").write_text(JOB)
    return work


def cut_off(work: Path) -> str:
    """A launcher killed after the submission; its job has ended. The experiment's id."""
    done = subprocess.run([sys.executable, "-c", LAUNCH, str(work)], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    (id,) = Experiment.catalog("cut")
    Experiment.from_id(id).wait(timeout=90)
    return id


def again(work: Path, said: list[str]) -> Experiment:
    experiment = Experiment("cut", LocalExecutor(work_dir=str(work)))
    experiment.add(Script("job.sh", args=[str(work)]))
    experiment.launch(tell=said.append)
    experiment.confirm()
    return experiment


def long_ago(id: str) -> None:
    """As if its launcher had died an hour ago."""
    directory = Path(Experiment.from_id(id).paths.dir)
    for path in [*directory.glob("launcher-*.json"), *directory.glob("*/intent.json")]:
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "time": record["time"] - 3600}))


def ran(work: Path) -> int:
    return len((work.parent / "ran").read_text().splitlines())


def test_one_that_failed_long_ago_is_history_and_the_same_launch_runs(work: Path) -> None:
    old = cut_off(work)
    long_ago(old)
    (work.parent / "repaired").touch()
    said: list[str] = []
    new = again(work, said)
    assert new.id != old and not new.adopted
    assert [task.observation.state for task in new.wait(timeout=90)] == [State.SUCCEEDED]
    assert ran(work) == 2
    (line,) = said
    assert old in line and "ended FAILED" in line


def test_tried_again_at_once_it_is_gone_on_with_however_it_ended(work: Path) -> None:
    old = cut_off(work)
    new = again(work, [])
    assert (new.id, new.adopted, new.ended, ran(work)) == (old, True, State.FAILED, 1)


def test_from_python_that_is_said_as_well(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = cut_off(work)
    experiment = Experiment("cut", LocalExecutor(work_dir=str(work)))
    experiment.add(Script("job.sh", args=[str(work)]))
    experiment.run()
    assert f"{old} was submitted by an interrupted launch and has already ended FAILED" in caplog.text
    assert "again=True" in caplog.text


@pytest.mark.parametrize("name", ["intent.json", "handle.json"])
def test_a_damaged_record_does_not_make_it_another_run(work: Path, name: str) -> None:
    old = cut_off(work)
    (path,) = Path(Experiment.from_id(old).paths.dir).glob(f"*/{name}")
    path.write_text("{")
    assert (again(work, []).id, ran(work)) == (old, 1)


def test_one_that_succeeded_is_gone_on_with_whenever_it_was(work: Path) -> None:
    (work.parent / "repaired").touch()
    old = cut_off(work)
    long_ago(old)
    said: list[str] = []
    new = again(work, said)
    assert (new.id, new.ended, ran(work), said) == (old, State.SUCCEEDED, 1, [])


def test_one_that_still_runs_is_gone_on_with_whenever_it_was(work: Path) -> None:
    (work / "job.sh").write_text("sleep 60\n")
    done = subprocess.run([sys.executable, "-c", LAUNCH, str(work)], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    (old,) = Experiment.catalog("cut")
    long_ago(old)
    try:
        new = again(work, [])
        assert (new.id, new.adopted, new.ended) == (old, True, None)
    finally:
        Experiment.from_id(old).cancel()


def test_whoever_waits_for_another_adopter_says_so(work: Path) -> None:
    paths = Experiment.from_id(cut_off(work)).paths
    other = subprocess.Popen(["sleep", "60"])
    try:
        record = {"time": time.time(), **identity.of(other.pid), "host": "login-7"}
        assert records.create_json(paths.launcher(1), record)
        said: list[str] = []
        threading.Timer(1, other.kill).start()
        threading.Timer(1, other.wait).start()
        assert again(work, said).id == paths.id
        (line,) = said
        assert "login-7" in line and paths.id in line and "waiting" in line
    finally:
        other.kill()
        other.wait()


def test_whoever_waits_for_a_dead_launchers_call_says_so(work: Path) -> None:
    experiment = Experiment.from_id(cut_off(work))
    os.unlink(experiment.jobs()[0][0].paths.handle)
    answers: list[Any] = [Recovery.IN_FLIGHT, Recovery.IN_FLIGHT, Handle("1")]

    class Slow(LocalExecutor):
        def recover(self, jobs: Any) -> Any:
            return {jobs[0].key: answers.pop(0)}

    said: list[str] = []
    adopting.settle([(experiment.jobs()[0][0], Slow())], said.append)
    (line,) = said
    assert "being submitted" in line and "waiting" in line and not answers


def test_a_task_whose_predecessor_failed_counts_as_ended(work: Path) -> None:
    def status(name: str, state: State, *after: str, **extra: bool) -> observing.TaskStatus:
        paths = layout.ExperimentPaths("/home", "t", "t_1").task(name)
        job = Job(name, paths, after=after)
        return observing.TaskStatus(name, job, LocalExecutor(), Observation(state, extra=extra))

    failed, good = status("a", State.FAILED), status("a", State.SUCCEEDED)
    assert adopting.ended([failed, status("b", State.UNSUBMITTED, "a", stalled=True)]) is State.FAILED
    assert adopting.ended([good, status("b", State.UNSUBMITTED, "a", stalled=True)]) is None
    assert adopting.ended([failed, status("b", State.UNSUBMITTED, "a")]) is None
    assert adopting.ended([good, status("b", State.CANCELLED)]) is State.CANCELLED
    assert adopting.ended([good, status("b", State.UNKNOWN)]) is None
    assert adopting.ended([good]) is State.SUCCEEDED
