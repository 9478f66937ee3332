"""Many tasks: one after the other, the next prepared while the scheduler answers; a failure loses nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import Experiment, RecordError, SchedulerRefused, Script, SlurmExecutor, records
from nemo_launch.transport import Completed, LocalTransport


class Queue(LocalTransport):
    """A stand-in for a login node: sbatch gives ids, and refuses the n-th job."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses = refuses
        self.submitted: list[str] = []

    def run(self, argv: Sequence[str], *, meanwhile: Any = None, **_: Any) -> Completed:
        if not argv[0].endswith("sbatch") or "--parsable" not in argv:
            return Completed(0, "sbatch\n", "")
        if meanwhile:
            meanwhile()
        if len(self.submitted) + 1 == self.refuses:
            return Completed(1, "", "sbatch: error: Batch job submission failed: Invalid account")
        self.submitted.append(Path(argv[-1]).parent.name)
        return Completed(0, f"{100 + len(self.submitted)}\n", "")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def five(home: Path, queue: Queue) -> Experiment:
    experiment = Experiment("five", SlurmExecutor(work_dir=str(home.parent / "work"), transport=queue))
    for number in range(5):
        experiment.add(Script(inline="true"), name=f"t{number}")
    return experiment


def recorded(home: Path, name: str) -> dict[str, Any]:
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(home.glob(f"experiments/*/*/*/{name}"))}


def test_they_are_submitted_in_their_order(home: Path) -> None:
    queue = Queue()
    five(home, queue).run(detach=True)
    assert queue.submitted == [f"t{number}" for number in range(5)]
    assert {name: handle["job_id"] for name, handle in recorded(home, "handle.json").items()} == {
        f"t{number}": str(101 + number) for number in range(5)
    }


def test_one_that_is_refused_leaves_those_before_and_no_word_of_those_after(home: Path) -> None:
    queue = Queue(refuses=3)
    with pytest.raises(SchedulerRefused, match="Invalid account"):
        five(home, queue).run(detach=True)
    assert queue.submitted == list(recorded(home, "handle.json")) == ["t0", "t1"]
    assert list(recorded(home, "intent.json")) == ["t0", "t1"]


def test_a_disk_that_is_full_for_the_next_one_loses_no_id(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, write = Queue(), records.write_bytes

    def full(path: str, *args: Any, **more: Any) -> None:
        if "/t2/" in path and path.endswith("job.sh"):
            raise RecordError("no space")
        write(path, *args, **more)

    monkeypatch.setattr(records, "write_bytes", full)
    with pytest.raises(RecordError, match="no space"):
        five(home, queue).run(detach=True)
    assert queue.submitted == list(recorded(home, "handle.json")) == ["t0", "t1"]
