"""Arrays and heterogeneous jobs: each part its own state, and the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_launch.executors.base import Failure, Handle, Job, Observation, State
from nemo_launch.executors.outcome import Outcome
from nemo_launch.executors.slurm import parts, seen
from nemo_launch.executors.slurm.merge import Evidence, Seen
from nemo_launch.executors.slurm.query import Answer, Row, _answer, expand
from nemo_launch.layout import TaskPaths
from nemo_launch.transport import LocalTransport

NOW = 1_000_000.0
JOB = Job("a", TaskPaths("/h/a", "/h/a"), Handle("7"), intended=NOW - 600, submitted=NOW - 600)


def row(job_id: str, state: str, reason: str = "", **more: Any) -> Row:
    started = {} if state == "PENDING" else {"started": NOW - 500, "nodes": "n0"}
    return Row(job_id, state, reason, submitted=NOW - 600, **{**started, **more})


def answer(*rows: Row) -> Answer:
    return _answer(one._replace(job_id=id) for one in rows for id in expand(one.job_id))


def truth(queue: Answer, account: Answer | None = None, outcome: Outcome | None = None, **more: Any) -> Observation:
    account = account or Answer()
    evidence = Evidence(JOB, NOW, outcome or Outcome(), **more)
    known = parts.ids(JOB, Handle("7"), queue, account, evidence.seen)
    return parts.merged(evidence, known, queue, account)


@pytest.mark.parametrize(
    ("shown", "ids"),
    [
        ("7", ["7"]),
        ("7_3", ["7_3"]),
        ("7+1", ["7+1"]),
        ("7_[3-5]", ["7_3", "7_4", "7_5"]),
        ("7_[3-5%2]", ["7_3", "7_4", "7_5"]),
        ("7_[0,4-5,9%1]", ["7_0", "7_4", "7_5", "7_9"]),
        ("7_[0-8:4]", ["7_0", "7_4", "7_8"]),
        ("7_[0-400:2]", [f"7_{n}" for n in range(0, 401, 2)]),
        ("7_[1,3,...]", ["7_[1,3,...]"]),
        ("7_[0-8:0]", ["7_[0-8:0]"]),
    ],
)
def test_rows_that_stand_for_several(shown: str, ids: list[str]) -> None:
    assert expand(shown) == ids


def test_case_26_each_index_has_its_own_state_and_there_is_a_summary() -> None:
    queue = answer(
        row("7_0", "COMPLETED"), row("7_1", "FAILED"), row("7_2", "RUNNING"), row("7_[3-9%1]", "PENDING", "Priority"),
    )  # fmt: skip
    seen = truth(queue, answer(row("7_1", "FAILED", exit_code=3)))
    assert list(seen.parts) == [f"7_{n}" for n in range(10)]
    states = [str(one.state) for one in seen.parts.values()]
    assert states == ["SUCCEEDED", "FAILED", "RUNNING", *["PENDING"] * 7]
    assert seen.parts["7_1"].exit_code == 3
    assert (seen.state, seen.reason) == (State.RUNNING, "1 SUCCEEDED, 1 FAILED, 1 RUNNING, 7 PENDING")


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        (["COMPLETED", "COMPLETED"], State.SUCCEEDED),
        (["COMPLETED", "FAILED"], State.FAILED),
        (["CANCELLED", "FAILED"], State.FAILED),
        (["CANCELLED", "COMPLETED"], State.CANCELLED),
        (["COMPLETED", "PENDING"], State.PENDING),
        (["FAILED", "RUNNING"], State.RUNNING),
        (["PENDING", "RUNNING"], State.RUNNING),
        (["COMPLETED", "HIBERNATING"], State.UNKNOWN),
    ],
)
@pytest.mark.parametrize("mark", ["_", "+"])
def test_the_whole_ends_when_all_have_ended(states: list[str], whole: State, mark: str) -> None:
    seen = truth(answer(*(row(f"7{mark}{n}", state) for n, state in enumerate(states))))
    assert seen.state is whole


@pytest.mark.parametrize("raw", ["NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "CANCELLED"])
def test_case_27_a_part_that_was_ended_alone_is_not_saved_by_the_scripts_exit_code(raw: str) -> None:
    done = Outcome(started=NOW - 500, ended=NOW - 10, exit_code=0, cause="ended")
    seen = truth(answer(row("7+0", "COMPLETED"), row("7+1", raw)), outcome=done)
    assert [one.state is State.SUCCEEDED for one in seen.parts.values()] == [True, False]
    assert seen.state is (State.CANCELLED if raw == "CANCELLED" else State.FAILED)


def test_the_scripts_exit_code_is_that_of_all_parts() -> None:
    bad = Outcome(started=NOW - 500, ended=NOW - 10, exit_code=7, cause="ended")
    rows = answer(row("7+0", "FAILED", exit_code=7), row("7+1", "FAILED", exit_code=7))
    seen = truth(Answer(), rows, bad)
    assert (seen.state, seen.exit_code, seen.reason) == (State.FAILED, 7, "exit code 7")


def test_indices_that_were_never_started_are_one_row_in_accounting() -> None:
    account = answer(row("7", "CANCELLED by 5", nodes="", started=None), row("7_0", "COMPLETED"))
    seen = truth(Answer(), account)
    assert list(seen.parts) == ["7", "7_0"] and seen.state is State.CANCELLED
    known = {"7_0": Observation(State.RUNNING), "7_1": Observation(State.PENDING)}
    before = Seen(Observation(State.RUNNING, parts=known), NOW - 10)
    seen = truth(Answer(), account, seen=before)
    assert {name: one.state for name, one in seen.parts.items()} == {"7_0": State.SUCCEEDED, "7_1": State.CANCELLED}


def test_an_index_that_left_the_queue_keeps_what_was_known() -> None:
    known = {"7_0": Observation(State.SUCCEEDED, exit_code=0), "7_1": Observation(State.RUNNING)}
    before = Seen(Observation(State.RUNNING, parts=known), NOW - 10)
    seen = truth(answer(row("7_1", "RUNNING")), seen=before)
    assert (seen.parts["7_0"].state, seen.state, seen.age) == (State.SUCCEEDED, State.RUNNING, None)


def test_a_silent_controller_leaves_all_parts_as_they_were() -> None:
    known = {"7_0": Observation(State.RUNNING), "7_1": Observation(State.PENDING)}
    seen = truth(Answer(), seen=Seen(Observation(State.RUNNING, parts=known), NOW - 40), controller="away")
    assert [str(one.state) for one in seen.parts.values()] == ["RUNNING", "PENDING"]
    assert (seen.state, seen.age) == (State.RUNNING, 40.0)


def test_an_index_that_is_gone_without_accounting_has_failed_after_three_minutes() -> None:
    none: dict[str, Any] = {"no_accounting": True, "accounting": "disabled"}
    queue = answer(row("7_1", "RUNNING"))
    before = Observation(State.RUNNING, parts={"7_0": Observation(State.RUNNING), "7_1": Observation(State.RUNNING)})
    seen = truth(queue, seen=Seen(before, NOW - 300), **none)
    assert seen.parts["7_0"].state is State.RUNNING and seen.parts["7_0"].extra["gone"] == NOW
    again = seen.parts["7_0"]._replace(extra={"gone": NOW - 181})
    seen = truth(queue, seen=Seen(before._replace(parts={**seen.parts, "7_0": again}), NOW - 1), **none)
    assert seen.parts["7_0"].state is State.FAILED and seen.state is State.RUNNING


def test_parts_of_a_job_whose_id_started_again_are_not_ours() -> None:
    strange = answer(row("7_0", "COMPLETED", command="/other/job.sh"), row("7_1", "RUNNING", command="/h/a/job.sh"))
    assert parts.ids(JOB, Handle("7"), strange, Answer(), None) == ["7_1"]


def test_handles_of_parts() -> None:
    for handle in (Handle("7", "c", 3), Handle("7", "c", None, 1), Handle("7", "c")):
        assert parts.handle_of(str(handle), "c") == handle


def test_the_row_of_an_index_or_a_component() -> None:
    rows = answer(row("7_[0-2]", "PENDING"), row("8+0", "RUNNING"), row("8+1", "RUNNING"), row("9", "CANCELLED"))
    assert rows.row(Handle("7", array_index=2)) == row("7_2", "PENDING")
    assert rows.row(Handle("7", array_index=3)) is None
    assert rows.row(Handle("8", het_part=1)) == row("8+1", "RUNNING")
    assert rows.row(Handle("9", array_index=4)) == row("9", "CANCELLED")
    assert rows.row(Handle("8")) is None and list(rows.parts(Handle("8"))) == ["8+0", "8+1"]


def test_what_is_kept_of_parts_is_read_back_whole(tmp_path: Path) -> None:
    failure = Failure(1, "n0", 7, exception="KeyError: 'x'")
    one = Observation(State.FAILED, "FAILED", "exit code 7", 7, attempt=1, failure=failure, extra={"gone": 5.0})
    whole = Observation(State.RUNNING, parts={"7_0": one, "7_1": Observation(State.UNKNOWN, raw="HIBERNATING")})
    job = JOB._replace(paths=TaskPaths(str(tmp_path), str(tmp_path)))
    seen.save(LocalTransport(), Evidence(job, NOW, Outcome()), whole)
    kept = seen.load(LocalTransport(), [job])[job.key]
    assert kept is not None and kept.observation == whole
    assert "restarting" not in Path(job.paths.seen).read_text()


def test_an_index_that_had_ended_does_not_wait_again_because_others_do() -> None:
    before = Seen(Observation(State.RUNNING, parts={"7_2": Observation(State.FAILED, exit_code=3)}), NOW - 10)
    found = truth(answer(row("7_[0-4]", "PENDING", "Priority")), seen=before)
    assert [str(one.state) for one in found.parts.values()] == ["PENDING", "PENDING", "FAILED", "PENDING", "PENDING"]
