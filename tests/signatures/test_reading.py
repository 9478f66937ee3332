"""When logs are looked at: of failed tasks alone, only their ends, once for each attempt."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.executors.base import Failure, Handle, Job, LogSource, Observation, State
from nemo_launch.layout import TaskPaths
from nemo_launch.signatures.reading import TAIL, finding
from nemo_launch.transport import Completed, LocalTransport

QUOTA = "OSError: [Errno 122] Disk quota exceeded: 'x'\n"
MODULE = "ModuleNotFoundError: No module named 'x'\n"


class Counting(LocalTransport):
    reads = 0

    def run(self, argv: Sequence[str], **kwargs: Any) -> Completed:
        self.reads += argv[0] == "tail"
        return super().run(argv, **kwargs)


class Executor:
    """With a whole log and those of ranks."""

    def __init__(self, folder: Path) -> None:
        self.transport = Counting()
        self.folder = folder

    def log_sources(self, job: Job) -> list[LogSource]:
        ranks = sorted(self.folder.glob("rank-*.log"))
        whole = [LogSource(str(self.folder / "7.log"))]
        return whole + [LogSource(str(path), rank=int(path.stem[5:])) for path in ranks]


@pytest.fixture
def executor(tmp_path: Path) -> Any:
    (tmp_path / "7.log").write_text("")
    return Executor(tmp_path)


def failed(attempt: int = 0, rank: int | None = None, ago: float = 1000, state: State = State.FAILED) -> Observation:
    failure = Failure(rank, "a3m-0", 1) if rank is not None else None
    return Observation(state, exit_code=1, attempt=attempt, ended=time.time() - ago, failure=failure)


def look(executor: Any, seen: Observation, job_id: str | None = "7") -> str:
    paths = TaskPaths(str(executor.folder), str(executor.folder))
    found = finding(Job("a", paths, Handle(job_id) if job_id else None), executor, seen)
    return found.name if found else ""


def test_it_is_read_once_for_each_attempt(executor: Any) -> None:
    (executor.folder / "7.log").write_text(QUOTA)
    assert [look(executor, failed()) for _ in range(3)] == ["quota"] * 3
    assert executor.transport.reads == 1
    (executor.folder / "7.log").write_text(QUOTA + MODULE)
    assert look(executor, failed(attempt=1)) == "module-missing"
    assert executor.transport.reads == 2


def test_that_there_is_nothing_is_remembered_once_the_log_is_settled(executor: Any) -> None:
    assert look(executor, failed(ago=1)) == ""
    (executor.folder / "7.log").write_text(QUOTA)  # it came late
    assert look(executor, failed(ago=2)) == "quota"
    (executor.folder / "finding.json").unlink()
    (executor.folder / "7.log").write_text("")
    assert [look(executor, failed()) for _ in range(3)] == [""] * 3
    assert executor.transport.reads == 3


@pytest.mark.parametrize("state", [state for state in State if state is not State.FAILED])
def test_no_other_task_is_looked_at(executor: Any, state: State) -> None:
    (executor.folder / "7.log").write_text(QUOTA)
    assert look(executor, failed(state=state)) == ""
    assert look(executor, failed(), job_id=None) == ""
    assert executor.transport.reads == 0 and not (executor.folder / "finding.json").exists()


def test_the_first_failing_ranks_log_counts_most(executor: Any) -> None:
    (executor.folder / "7.log").write_text(QUOTA)
    (executor.folder / "rank-3.log").write_text(MODULE)
    assert look(executor, failed(rank=3)) == "module-missing"
    assert look(executor, failed(rank=4, attempt=1)) == "quota"


def test_only_the_end_of_a_large_log_is_read(executor: Any) -> None:
    with open(executor.folder / "7.log", "w") as file:
        file.write(QUOTA)
        file.truncate(1 << 32)  # most of it a hole
        file.seek(0, os.SEEK_END)
        file.write("\n" + MODULE)
    assert look(executor, failed()) == "module-missing"
    with open(executor.folder / "7.log", "w") as file:
        file.write(QUOTA + "x\n" * TAIL)
    assert look(executor, failed(attempt=1)) == ""


@pytest.mark.parametrize("text", ["", "{", '{"attempt": "7-0"}', '{"attempt": "7-0", "finding": {"a": 1}}', "[]"])
def test_a_damaged_memory_is_no_memory(executor: Any, text: str) -> None:
    (executor.folder / "finding.json").write_text(text)
    (executor.folder / "7.log").write_text(QUOTA)
    assert look(executor, failed()) == "quota"
    assert json.loads((executor.folder / "finding.json").read_text())["finding"]["name"] == "quota"


def test_a_folder_that_cannot_be_written_is_no_error(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from nemo_launch import records
    from nemo_launch.errors import RecordError

    def refuse(*_: object, **__: object) -> None:
        raise RecordError("no")

    monkeypatch.setattr(records, "write_json", refuse)
    (executor.folder / "7.log").write_bytes(b"\xff\n" + QUOTA.encode())
    assert look(executor, failed()) == "quota"
