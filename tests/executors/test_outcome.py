"""What the launcher reads of what jobs wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nemo_launch.executors.base import Failure, Handle, Job
from nemo_launch.executors.outcome import Outcome, parse, read_outcomes
from nemo_launch.layout import TaskPaths
from nemo_launch.transport import LocalTransport


def encode(**fields: object) -> bytes:
    return json.dumps(fields).encode()


END = encode(exit_code=7, cause="ended", signal="", message="", nodes="a3m-[0-1]", followed=15, started=100, ended=200)
FIRST = encode(rank=5, node="a3m-1", exit_code=7, signal=None, exception="KeyError: 'x'", traceback="Traceback …")


def test_an_attempt_that_ended() -> None:
    files = {"started-42-0.json": encode(started=100), "exit-42-0.json": END, "ranks-42-0/first-failure.json": FIRST}
    failure = Failure(5, "a3m-1", 7, None, "KeyError: 'x'", "Traceback …", 15)
    assert parse("42", files, "job-42") == Outcome(0, 100, 200, 7, "ended", "", "", "a3m-[0-1]", failure, "42")
    assert str(failure) == "rank 5 on a3m-1 failed first: exit 7, KeyError: 'x'; 15 others followed"


def test_only_the_newest_attempt_counts() -> None:
    files = {
        "started-42-0.json": encode(started=100),
        "exit-42-0.json": END,
        "ranks-42-0/first-failure.json": FIRST,
        "started-42-1.json": encode(started=300, nodes="a3m-0"),
    }
    assert parse("42", files) == Outcome(attempt=1, started=300, nodes="a3m-0")  # killed hard, or still running
    files["exit-42-1.json"] = encode(exit_code=0, cause="ended", started=300, ended=400)
    assert parse("42", files).exit_code == 0
    files["started-42-10.json"] = encode(started=500)
    assert (parse("42", files).attempt, parse("42", files).exit_code) == (10, None)


def test_records_of_another_job_do_not_count() -> None:
    assert parse("42", {"exit-421-0.json": END, "exit-4-20.json": END}, "job-43") == Outcome(owner="43")


def test_a_job_that_ended_before_it_started_anything() -> None:
    files = {"exit-43-0.json": encode(exit_code=75, cause="duplicate", message="duplicate of 42", started=1, ended=1)}
    outcome = parse("43", files, "job-42")
    assert (outcome.exit_code, outcome.cause, outcome.reason, outcome.owner) == (
        75,
        "duplicate",
        "duplicate of 42",
        "42",
    )


@given(st.binary(max_size=60) | st.builds(lambda cut: END[:cut], st.integers(0, len(END) - 1)))
def test_damaged_records_count_as_not_there(data: bytes) -> None:
    files = {"started-42-0.json": encode(started=100), "exit-42-0.json": data, "ranks-42-0/first-failure.json": data}
    assert parse("42", files) == Outcome(started=100)


def test_values_of_another_type_count_as_not_there() -> None:
    files = {"exit-42-0.json": encode(exit_code="7", cause=3, nodes=None, started=True, followed=[])}
    assert parse("42", files) == Outcome()


class Counting(LocalTransport):
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read_matching(self, patterns):  # type: ignore[no-untyped-def]
        self.asked.append("files")
        return super().read_matching(patterns)

    def readlinks(self, paths):  # type: ignore[no-untyped-def]
        self.asked.append("links")
        return super().readlinks(paths)


def test_all_jobs_are_one_question(tmp_path: Path) -> None:
    jobs = []
    for n in range(5):
        folder = tmp_path / f"[{n}] * it's"
        (folder / "ranks-42-0").mkdir(parents=True)
        (folder / "exit-42-0.json").write_bytes(encode(exit_code=n, started=1))
        (folder / "ranks-42-0" / "first-failure.json").write_bytes(encode(rank=n, node="a"))
        os.symlink("job-42", folder / "claim")
        jobs.append(Job(f"t{n}", TaskPaths(str(tmp_path / f"record-{n}"), str(folder)), Handle("42")))
    jobs.append(Job("unsubmitted", TaskPaths(str(tmp_path / "u"), str(tmp_path / "u"))))
    transport = Counting()
    outcomes = read_outcomes(transport, jobs)
    assert transport.asked == ["files", "links"]
    assert set(outcomes) == {job.key for job in jobs}
    for n in range(5):
        outcome = outcomes[jobs[n].key]
        assert outcome.failure is not None
        assert (outcome.exit_code, outcome.failure.rank, outcome.owner) == (n, n, "42")
    assert outcomes[jobs[5].key] == Outcome()
