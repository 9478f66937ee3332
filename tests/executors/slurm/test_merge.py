"""What becomes of evidence: the table of truths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_launch.executors.base import Failure, Handle, Job, Observation, State
from nemo_launch.executors.outcome import Outcome
from nemo_launch.executors.slurm import words
from nemo_launch.executors.slurm.merge import LOST_AFTER, Evidence, Seen, merge, never_starts, same_job
from nemo_launch.executors.slurm.query import Row
from nemo_launch.layout import TaskPaths

NOW = 1_000_000.0
JOB = Job("a", TaskPaths("/h/a", "/h/a"), Handle("42"), intended=NOW - 600, submitted=NOW - 600, after=())
NOTHING = Outcome()
STARTED = Outcome(started=NOW - 500, nodes="n0")


def ended(code: int, **more: object) -> Outcome:
    return Outcome(started=NOW - 500, ended=NOW - 10, exit_code=code, cause="ended", **more)  # type: ignore[arg-type]


def row(state: str, reason: str = "", **more: object) -> Row:
    known = {"submitted": NOW - 600, "started": NOW - 500, "nodes": "n0", "command": "/h/a/job.sh"}
    return Row("42", state, reason, **{**known, **more})  # type: ignore[arg-type]


def truth(outcome: Outcome = NOTHING, **evidence: Any) -> Observation:
    return merge(Evidence(**{"job": JOB, "now": NOW, "outcome": outcome, **evidence}))


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("PENDING", State.PENDING),
        ("CONFIGURING", State.PENDING),
        ("REQUEUED", State.PENDING),
        ("REQUEUE_HOLD", State.PENDING),
        ("RUNNING", State.RUNNING),
        ("COMPLETING", State.RUNNING),
        ("SUSPENDED", State.RUNNING),
        ("COMPLETED", State.SUCCEEDED),
        ("CANCELLED", State.CANCELLED),
        ("CANCELLED by 1001", State.CANCELLED),
        ("FAILED", State.FAILED),
        ("TIMEOUT", State.FAILED),
        ("NODE_FAIL", State.FAILED),
        ("BOOT_FAIL", State.FAILED),
        ("DEADLINE", State.FAILED),
        ("PREEMPTED", State.FAILED),
        ("OUT_OF_MEMORY", State.FAILED),
        ("REVOKED", State.UNKNOWN),
        ("HIBERNATING", State.UNKNOWN),
        ("", State.UNKNOWN),
    ],
)
@pytest.mark.parametrize("source", ["queue", "account"])
def test_slurms_states(raw: str, state: State, source: str) -> None:
    seen = truth(**dict[str, Any]({source: row(raw)}))
    if source == "account" and not state.final:
        assert not seen.state.final and seen.age is not None  # gone from the queue: accounting lags behind
    else:
        assert (seen.state, seen.raw) == (state, raw)


@given(st.text())
def test_no_word_of_a_newer_slurm_is_an_error(word: str) -> None:
    assert truth(queue=row(word)).raw == word
    assert isinstance(words.reason(word), str)


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("Resources", "free resources"),
        ("Priority", "turn in the queue"),
        ("Dependency", "depends on"),
        ("QOSMaxCpuPerUserLimit", "limit of its QOS is reached"),
        ("QOSMaxCpuPerUserLimit", "(QOSMaxCpuPerUserLimit)"),
        ("QOSMaxWallDurationPerJobLimit", "more time than its QOS allows (QOSMaxWallDurationPerJobLimit)"),
        ("QOSGrpNodeLimit", "limit of its QOS is reached by all who share it"),
        ("AssocMaxJobsLimit", "as many jobs as your account allows"),
        ("JobArrayTaskLimit", "of its array"),
        ("Licenses", "licences"),
        ("AssocGrpCPUMinutesLimit", "limit of its account"),
        ("MaxJobsPerAccount", "limit"),
        ("ReqNodeNotAvail, UnavailableNodes:a3m-0", "a3m-0"),
        ("JobHeldUser", "scontrol release"),
        ("JobHeldAdmin", "administrator"),
        ("InvalidQOS", "QOS does not exist"),
        ("BeginTime", "start time"),
        ("PartitionDown", "down"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_why_it_waits_in_plain_words(code: str, part: str) -> None:
    seen = truth(queue=row("PENDING", code, started=None, nodes=""))
    assert seen.state is State.PENDING and part in seen.reason


def test_the_exit_record_knows_the_code() -> None:
    failure = Failure(5, "a3m-1", 7, None, "KeyError: 'x'", "", 15)
    seen = truth(ended(7, failure=failure), account=row("FAILED", exit_code=1))
    assert (seen.state, seen.exit_code, seen.failure) == (State.FAILED, 7, failure)
    assert "rank 5 on a3m-1" in seen.reason and "KeyError" in seen.reason


def test_accounting_knows_the_code_where_there_is_no_record() -> None:
    assert truth(account=row("FAILED", exit_code=3)).exit_code == 3
    killed = truth(account=row("FAILED", exit_code=0, signal=9))
    assert (killed.exit_code, killed.reason) == (137, "killed by signal 9")


@pytest.mark.parametrize(
    "raw", ["RUNNING", "COMPLETING", "COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"]
)
def test_work_that_was_done_stays_done(raw: str) -> None:
    assert truth(ended(0), queue=row(raw), cancelled=True).state is State.SUCCEEDED


def test_the_scheduler_says_why_a_record_has_a_bad_code() -> None:
    term = ended(143)._replace(cause="signal", signal="SIGTERM")
    assert "time limit" in truth(term, queue=row("TIMEOUT")).reason
    assert "preempted" in truth(term, account=row("PREEMPTED")).reason
    assert truth(term, account=row("CANCELLED by 7")).state is State.CANCELLED
    assert truth(term, account=row("FAILED", exit_code=143)).reason == "ended by SIGTERM"


def test_memory_that_was_not_enough_is_named_with_how_much_it_was() -> None:
    room = "it may use 100 MB on each node; ask for more (mem)"
    told = ended(137)._replace(cause="memory", reason=f"ran out of memory on a3m-1: {room}", memory=room)
    # The batch script came to its own end, which is all that Slurm 22.05 says of it; or nobody says anything.
    for row_, rest in ((row("FAILED", exit_code=9), {}), (None, {"controller": "no answer"})):
        seen = truth(told, account=row_, **rest)
        assert (seen.state, seen.exit_code, seen.reason) == (State.FAILED, 137, told.reason)
    killed = STARTED._replace(memory=room)  # the script, too
    assert truth(killed, account=row("OUT_OF_MEMORY")).reason == f"ran out of memory: {room}"
    assert truth(account=row("OUT_OF_MEMORY")).reason == "ran out of memory: ask for more (mem)"


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("cancelled", State.CANCELLED, "cancelled"),
        ("timeout", State.FAILED, "reached its time limit"),
        ("preempted", State.FAILED, "preempted by another job"),
        ("node_fail", State.FAILED, "a node failed"),
        ("", State.FAILED, "ended by SIGTERM"),
    ],
)
def test_what_slurm_wrote_into_the_log_counts_when_it_has_forgotten_the_job(
    word: str, state: State, reason: str
) -> None:
    told = ended(143)._replace(cause="signal", signal="SIGTERM", word=word, ended=NOW - 2 * LOST_AFTER)
    seen = truth(told)
    assert (seen.state, seen.exit_code) == (state, 143) and seen.reason.startswith(reason)
    assert truth(told, account=row("CANCELLED by 7")).reason == "cancelled by user 7"  # who still knows it knows better


def test_memory_was_not_enough_before_somebody_cancelled() -> None:
    told = ended(137)._replace(cause="memory", reason="ran out of memory")
    assert truth(told, cancelled=True).state is State.FAILED


OVER = ["CANCELLED by 7", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"]


@pytest.mark.parametrize("code", [0, 7, 143])
@pytest.mark.parametrize("raw", OVER)
@pytest.mark.parametrize("source", ["queue", "account"])
def test_a_run_that_was_ended_is_no_success_however_well_it_took_it(raw: str, code: int, source: str) -> None:
    record = ended(code)._replace(cause="signal", signal="SIGTERM")
    seen = truth(record, **dict[str, Any]({source: row(raw)}))
    assert seen.state is (State.CANCELLED if raw.startswith("CANCELLED") else State.FAILED)
    assert seen.reason == words.state(raw)[1]
    assert seen.exit_code != 0 or seen.state is State.CANCELLED


@pytest.mark.parametrize("raw", [*OVER, "RUNNING", "COMPLETING", "COMPLETED"])
def test_a_cancelled_run_that_ends_well_is_cancelled(raw: str) -> None:
    record = ended(0)._replace(cause="cancelled", signal="SIGTERM")
    assert truth(record, cancelled=True, queue=row(raw)).state is State.CANCELLED
    assert truth(record, cancelled=True, controller="away", accounting="away").state is State.CANCELLED


def test_where_all_came_to_their_end_just_as_the_signal_came_the_scheduler_decides() -> None:
    record = ended(0)._replace(cause="signal", signal="SIGTERM")
    assert truth(record, queue=row("COMPLETING")).state is State.RUNNING
    assert truth(record, queue=row("COMPLETING"), account=row("CANCELLED by 7")).state is State.CANCELLED
    assert truth(record, account=row("COMPLETED", exit_code=0)).state is State.SUCCEEDED


@pytest.mark.parametrize("code", [0, 143])
def test_without_the_schedulers_word_a_signalled_end_stays_open(code: int) -> None:
    record = ended(code)._replace(cause="signal", signal="SIGTERM")
    for silent in ({"controller": "away"}, {"accounting": "away"}, {"controller": "away", "accounting": "away"}):
        seen = truth(record, seen=Seen(LAST, NOW - 9000, NOW - 9000), **dict[str, Any](silent))
        assert (seen.state, seen.age) == (State.RUNNING, 9000.0)
    assert not truth(record).state.final  # accounting lags behind
    later = record._replace(ended=NOW - LOST_AFTER)
    assert truth(later).reason == "ended by SIGTERM"  # both know nothing of it
    none: dict[str, Any] = {"no_accounting": True, "accounting": "disabled"}
    assert truth(record, **none).reason == "ended by SIGTERM"
    assert not truth(record, controller="away", **none).state.final


@pytest.mark.parametrize("raw", ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "RUNNING", "PENDING"])
@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
@pytest.mark.parametrize("record", [NOTHING, ended(0), ended(7), ended(0)._replace(cause="signal")])
def test_what_was_told_as_the_end_stays_it(raw: str, state: State, record: Outcome) -> None:
    before = Seen(Observation(state), NOW - 5, settled=False)
    for source in ("queue", "account"):
        assert truth(record, seen=before, **dict[str, Any]({source: row(raw)})).state is state


def test_a_failure_before_the_cancellation_stays_a_failure() -> None:
    assert truth(ended(7), cancelled=True).state is State.FAILED
    assert truth(ended(7), cancelled=True, queue=row("FAILED")).state is State.FAILED
    assert truth(ended(143)._replace(cause="cancelled"), cancelled=True).state is State.CANCELLED
    # the script saw the marker and ended by itself, before scancel was heard
    assert truth(ended(143)._replace(cause="cancelled"), cancelled=True, queue=row("FAILED")).state is State.CANCELLED
    assert truth(ended(143), cancelled=True, queue=row("COMPLETING")).state is State.CANCELLED


def test_a_record_of_an_earlier_run_is_not_the_result() -> None:
    again = truth(ended(7), queue=row("PENDING", "BeginTime", started=None))
    assert (again.state, again.restarting) == (State.PENDING, True)
    assert truth(ended(7), queue=row("RUNNING", started=NOW - 5)).state is State.RUNNING
    assert truth(ended(7), queue=row("COMPLETING", started=NOW - 500)).state is State.FAILED


def test_a_job_that_waits_says_when_the_scheduler_means_to_start_it() -> None:
    assert truth(queue=row("PENDING", "Resources", started=NOW + 90, nodes="")).estimated_start == NOW + 90
    assert truth(queue=row("PENDING", "Resources", started=NOW - 90, nodes="")).estimated_start is None
    assert truth(queue=row("PENDING", "Resources", started=None, nodes="")).estimated_start is None
    assert truth(queue=row("RUNNING")).estimated_start is None


def test_who_cancelled_it_is_said_where_accounting_tells() -> None:
    queue = row("CANCELLED")
    assert truth(queue=queue).reason == "cancelled"
    assert truth(queue=queue, account=row("CANCELLED by 7")).reason == "cancelled by user 7"
    assert truth(queue=queue, account=row("CANCELLED by 7"), cancelled=True).reason == "cancelled"
    waiting = row("CANCELLED by 7", nodes="", started=None)
    assert truth(account=waiting).reason == "cancelled before it started by user 7"


def test_an_end_that_accounting_explained_stays_explained() -> None:
    known = Observation(State.FAILED, exit_code=3, reason="exit code 3")
    assert truth(queue=row("FAILED"), seen=Seen(known, NOW, settled=False)) == known
    by = Observation(State.CANCELLED, reason="cancelled by ada")
    assert truth(queue=row("CANCELLED"), seen=Seen(by, NOW, settled=False)) == by
    later = truth(
        queue=row("CANCELLED"), account=row("CANCELLED by 7"), seen=Seen(by._replace(reason="cancelled"), NOW)
    )
    assert later.reason == "cancelled by user 7"


@pytest.mark.parametrize("raw", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_accounting_alone_does_not_end_what_may_have_been_put_back_into_the_queue(raw: str) -> None:
    seen = truth(STARTED, account=row(raw), controller="Unable to contact", seen=Seen(LAST, NOW - 30))
    assert (seen.state, seen.age) == (State.RUNNING, 30.0)
    assert truth(STARTED, account=row(raw)).state is State.FAILED
    assert truth(STARTED, account=row("TIMEOUT"), controller="Unable to contact").state is State.FAILED


def test_a_missing_log_folder_is_explained() -> None:
    assert "job_dir" in truth(queue=row("FAILED", "JobLaunchFailure")).reason
    assert "job_dir" in truth(account=row("FAILED", signal=53, exit_code=0)).reason
    # Slurm 24.11 makes the folder on the node; there the script ends, and its records do not reach the launcher.
    assert "job_dir" in truth(account=row("FAILED", exit_code=73)).reason
    assert "job_dir" not in truth(STARTED, account=row("FAILED", exit_code=73)).reason


def test_what_can_never_start_is_skipped() -> None:
    waits = row("PENDING", "DependencyNeverSatisfied", started=None, nodes="")
    assert never_starts(waits) and not never_starts(row("PENDING", "Dependency"))
    assert (truth(queue=waits).state, truth(queue=waits).skipped) == (State.CANCELLED, True)
    job = JOB._replace(after=("before",))
    queue = truth(job=job, queue=row("CANCELLED", "DependencyNeverSatisfied", nodes=""))
    for seen in (queue, truth(job=job, account=row("CANCELLED", "Dependency", nodes=""), doomed=True)):
        assert (seen.state, seen.skipped, seen.started) == (State.CANCELLED, True, None)
    assert not truth(job=job, queue=row("CANCELLED", "None", nodes="")).skipped


@pytest.mark.parametrize("known", [{"doomed": False}, {"doomed": None}, {"doomed": True, "cancelled": True}])
def test_what_was_cancelled_while_it_waited_for_others_is_not_skipped(known: dict[str, Any]) -> None:
    seen = truth(job=JOB._replace(after=("before",)), queue=row("CANCELLED", "Dependency", nodes=""), **known)
    assert (seen.state, seen.skipped, seen.reason) == (State.CANCELLED, False, "cancelled before it started")


# -- nobody answers, or nobody knows ------------------------------------------------------------------------------

LAST = Observation(State.RUNNING, raw="RUNNING", nodes="n0", started=NOW - 500)


def test_a_silent_controller_leaves_the_last_known_state_with_its_age() -> None:
    seen = truth(controller="Unable to contact", accounting="away", seen=Seen(LAST, NOW - 300))
    assert (seen.state, seen.age) == (State.RUNNING, 300.0)
    assert "Unable to contact" in seen.reason
    never = truth(controller="Unable to contact", accounting="away")
    assert (never.state, never.age) == (State.SUBMITTED, 600.0)


def test_a_record_needs_no_controller() -> None:
    assert truth(ended(0), controller="away", accounting="away").state is State.SUCCEEDED


def test_gone_from_the_queue_and_not_in_accounting_is_neither_finished_nor_failed() -> None:
    for seen in (truth(STARTED), truth(seen=Seen(LAST, NOW - 3)), truth(seen=Seen(LAST, NOW - 3, NOW - 2))):
        assert seen.state is State.RUNNING and seen.age is not None


def test_accounting_that_never_shows_it_leaves_it_unknown_for_ever() -> None:
    assert truth(seen=Seen(LAST, 0, 0)).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("gone", "state"), [(1.0, State.RUNNING), (LOST_AFTER - 1, State.RUNNING), (LOST_AFTER, State.FAILED)]
)
def test_without_accounting_a_lost_job_has_failed_after_three_minutes(gone: float, state: State) -> None:
    none: dict[str, Any] = {"no_accounting": True, "accounting": "Slurm accounting storage is disabled"}
    seen = truth(seen=Seen(LAST, NOW - gone - 5, NOW - gone), **none)
    assert seen.state is state
    if state is State.FAILED:
        assert "without an exit code" in seen.reason and seen.age is None
        assert truth(seen=Seen(LAST, 0, 0), controller="away", **none).state is State.RUNNING
        assert truth(seen=Seen(LAST, 0, 0), cancelled=True, **none).state is State.CANCELLED


def test_the_second_attempt_that_was_killed_has_not_the_first_ones_result() -> None:
    # its start record is there, its exit record is not: outcome says so
    second = Outcome(attempt=1, started=NOW - 100)
    none: dict[str, Any] = {"no_accounting": True, "accounting": "disabled"}
    assert truth(second, seen=Seen(LAST, NOW - 400, NOW - 300), **none).state is State.FAILED


def test_an_id_that_started_again_is_not_our_job() -> None:
    assert same_job(row("RUNNING"), JOB)
    assert same_job(row("RUNNING", command="sbatch --parsable /h/a/job.sh"), JOB)
    assert not same_job(row("RUNNING", command="/other/h/a/job.sh"), JOB)
    assert not same_job(row("RUNNING", command="(null)"), JOB)
    assert not same_job(row("RUNNING", command="sbatch --parsable /other/h/a/job.sh"), JOB)
    # accounting's first row has no command yet
    assert same_job(row("PENDING", command=""), JOB)
    assert not same_job(row("COMPLETED", command="", submitted=NOW - 9999), JOB)


def test_clocks_that_differ_do_not_make_a_job_a_strangers() -> None:
    assert same_job(row("RUNNING", submitted=NOW - 9999), JOB)
