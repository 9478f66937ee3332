"""Which logs a task has, from what its jobs left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_launch.executors.base import Handle, Job
from nemo_launch.executors.job_logs import log_sources
from nemo_launch.layout import TaskPaths
from nemo_launch.transport import LocalTransport


@pytest.fixture
def job(tmp_path: Path) -> Job:
    folder = tmp_path / "it's [a] *"
    folder.mkdir()
    return Job("a", TaskPaths(str(folder), str(folder)), Handle("7"))


def put(job: Job, name: str, text: str | dict[str, object] = "") -> None:
    path = Path(job.paths.job_dir, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def found(job: Job) -> list[tuple[int, str, int | None, int]]:
    logs = log_sources(LocalTransport(), job)
    return [(log.attempt, str(Path(log.path).relative_to(job.paths.job_dir)), log.rank, log.begin) for log in logs]


def test_every_attempt_of_every_job_the_newest_first(job: Job) -> None:
    for name in ("7.log", "8.log", "9.log", "ranks-7-0/rank-0.log", "ranks-8-1/rank-10.log", "ranks-8-1/rank-9.log"):
        put(job, name)
    put(job, "started-7-0.json", {"log_from": 0})
    put(job, "started-8-0.json", {"log_from": 0})
    put(job, "started-8-1.json", {"log_from": 30})
    put(job, "started-9-0.json", {})  # a second submission, which found out and ended
    put(job, "follows-8.json", {"job_id": "7", "attempt": 1})
    Path(job.paths.claim).symlink_to("job-8")
    assert found(job) == [
        (2, "8.log", None, 30),
        (2, "ranks-8-1/rank-9.log", 9, 0),
        (2, "ranks-8-1/rank-10.log", 10, 0),
        (1, "8.log", None, 0),
        (0, "7.log", None, 0),
        (0, "ranks-7-0/rank-0.log", 0, 0),
    ]


def test_records_without_their_place_in_the_log(job: Job) -> None:
    """Damaged, or of a version that did not write it."""
    put(job, "7.log")
    put(job, "started-7-0.json", "{")
    put(job, "started-7-1.json", {})
    assert found(job) == [(1, "7.log", None, 0)]


def test_a_log_without_records_is_what_the_scheduler_wrote(job: Job) -> None:
    assert found(job) == []
    put(job, "7.log")
    assert found(job) == [(0, "7.log", None, 0)]
