"""A launch that comes to nothing leaves nothing; no cluster is needed."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from nemo_launch import (
    Experiment,
    InputError,
    LocalExecutor,
    RecordError,
    SchedulerRefused,
    Script,
    SlurmExecutor,
    packaging,
    records,
)
from nemo_launch.packaging import provisional
from nemo_launch.transport import Completed, LocalTransport


class Refusing(LocalTransport):
    """A login node whose sbatch says no."""

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        if argv[0].endswith("sbatch"):
            return Completed(1, "", "sbatch: error: Batch job submission failed: Invalid account")
        return Completed(0, "sbatch\n", "")


def test_a_refused_launch_leaves_no_files_where_the_nodes_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "work").mkdir()
    shared = tmp_path / "shared"
    executor = SlurmExecutor(job_dir=str(shared), work_dir=str(tmp_path / "work"), transport=Refusing())
    experiment = Experiment("demo", executor)
    experiment.add(Script(inline="true"))
    with pytest.raises(SchedulerRefused, match="Invalid account"):
        experiment.run(detach=True)
    assert Experiment.catalog() == []
    assert not shared.exists()
    with pytest.raises(SchedulerRefused, match="Invalid account"):
        experiment.run(detach=True)  # nothing was submitted: it may be tried again


def test_of_threads_that_run_one_experiment_at_once_one_launches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    experiment = Experiment("threads", LocalExecutor(work_dir=str(tmp_path / "work")))
    experiment.add(Script(inline="echo ran >> ran"))
    together = Barrier(4)

    def run(_: int) -> str:
        together.wait()
        try:
            experiment.run()
        except InputError as error:
            return str(error)
        return "ran"

    with ThreadPoolExecutor(4) as pool:
        said = sorted(pool.map(run, range(4)))
    assert [text == "ran" for text in said].count(True) == 1, said
    assert all("was run already" in text for text in said if text != "ran"), said
    assert (tmp_path / "work" / "ran").read_text() == "ran\n"
    assert Experiment.catalog() == [experiment.id]


def test_ctrl_c_while_run_waits_leaves_the_tasks_alone_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    experiment = Experiment("waited", LocalExecutor())
    experiment.add(Script(inline="sleep 1; exit 0"))

    def press(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, caplog.at_level("WARNING", "nemo_launch"):
        patched.setattr(Experiment, "wait", press)
        with pytest.raises(KeyboardInterrupt):
            experiment.run()
    assert f"it goes on: Experiment.from_id('{experiment.id}') finds it again" in caplog.text
    assert [task.observation.state for task in Experiment.from_id(experiment.id).wait()] == ["SUCCEEDED"]


# -- everything else that a refused launch made --------------------------------------------------------------------


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "new" / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "job.sh").write_text("true\n")
    return tmp_path / "work"


def refused(work: Path, transport: LocalTransport, tasks: int = 1, **fields: Any) -> None:
    experiment = Experiment("demo", SlurmExecutor(work_dir=str(work), transport=transport, **fields))
    for _ in range(tasks):
        experiment.add(Script("job.sh"))
    with pytest.raises(SchedulerRefused, match="Invalid account"):
        experiment.run(detach=True)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("tasks", [1, 2])
def test_a_refused_launch_leaves_nothing_where_nothing_was(
    tmp_path: Path, work: Path, shared: bool, tasks: int
) -> None:
    before = everything(tmp_path)
    refused(work, Refusing(), tasks, **({"job_dir": str(tmp_path / "jobs")} if shared else {}))
    assert everything(tmp_path) == before


def launched(work: Path, title: str = "other") -> Experiment:
    """A launch of the same code that goes well."""
    experiment = Experiment(title, LocalExecutor(work_dir=str(work)))
    experiment.add(Script("job.sh"))
    experiment.run()
    return experiment


def test_a_refused_launch_leaves_what_was_there_before(tmp_path: Path, work: Path) -> None:
    launched(work, "demo")
    before = everything(tmp_path)
    assert any("snapshots/" in name for name in before)
    refused(work, Refusing())
    assert everything(tmp_path) == before


def test_a_snapshot_that_another_launch_uses_by_now_stays(work: Path) -> None:
    """That one succeeds between this one's snapshot and its refusal."""

    class Meanwhile(Refusing):
        def run(self, argv: Sequence[str], **more: Any) -> Completed:
            if argv[0].endswith("sbatch") and "--parsable" in argv:
                launched(work)
            return super().run(argv, **more)

    refused(work, Meanwhile())
    assert Experiment.catalog() == [Experiment.from_title("other").id]
    task = json.loads(Path(Experiment.from_title("other").jobs()[0][0].paths.task).read_text())
    assert os.path.isfile(task["argv"][0])


def test_a_launch_that_cannot_be_recorded_leaves_nothing(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(tmp_path)

    def full(path: str, *_: Any, **__: Any) -> None:
        raise records.unwritable(path, OSError(errno.ENOSPC, "No space left on device", path))

    monkeypatch.setattr(records, "write_bytes", full)
    experiment = Experiment("demo", LocalExecutor(work_dir=str(work)))
    experiment.add(Script("job.sh"))
    with pytest.raises(RecordError, match="No space left"):
        experiment.run()
    assert everything(tmp_path) == before


def test_an_accepted_launch_leaves_only_the_snapshot_beside_its_record(work: Path) -> None:
    home = Path(launched(work).paths.home)
    assert [name for name in os.listdir(home / "snapshots") if name.startswith(".")] == []


@pytest.mark.parametrize("step", ["readlink", "rename", "unlink"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_snapshot_taken_back_and_used_at_the_same_time_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    """Whatever the two have done so far when the other one comes."""
    code, snapshots = packaging.inline("job.sh", "true"), str(tmp_path / "snapshots")
    added = packaging.Provisional([snapshots])
    packaging.store(code, snapshots, added)
    real, times = getattr(os, step), []

    def meanwhile(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(os, step, real)
        times.append(step)
        if when == "before":
            packaging.store(code, snapshots)
        try:
            return real(*args, **more)
        finally:
            if when == "after":
                packaging.store(code, snapshots)

    monkeypatch.setattr(os, step, meanwhile)
    added.take_back()
    assert times == [step]
    assert os.listdir(snapshots) == [code.digest]
    assert (tmp_path / "snapshots" / code.digest / "job.sh").read_text() == "true"


def test_many_launches_of_the_same_code_of_which_some_are_refused(tmp_path: Path) -> None:
    """Whoever is not refused finds the snapshot, whatever the others do."""
    snapshots = str(tmp_path / "snapshots")

    def one(number: int) -> bool:
        code = packaging.inline("job.sh", f"echo {number // 4}")
        added = packaging.Provisional([snapshots])
        packaging.store(code, snapshots, added)
        if number % 4:
            added.take_back()
            return True
        folder, until = os.path.join(snapshots, code.digest), time.monotonic() + 60
        while not (there := os.path.isdir(folder)) and time.monotonic() < until:
            pass  # whoever lost the race for it is putting it back at this moment
        added.keep()
        return there

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(400)))
    assert len([name for name in os.listdir(snapshots) if name.endswith(provisional.TEMPORARY)]) == 0
    assert {packaging.inline("job.sh", f"echo {n}").digest for n in range(100)} <= set(os.listdir(snapshots))
