"""The status block: five lines that scripts parse, then what else there is to say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nemo_launch.executors.base import Failure, Handle, Job, Observation, State
from nemo_launch.experiments.observing import TaskStatus
from nemo_launch.layout import TaskPaths
from nemo_launch.views import block, json


def experiment(id: str = "nemo-demo-run_1753123402") -> Any:
    title = id.rpartition("_")[0]
    folder = f"/w/experiments/{title}/{id}"
    return SimpleNamespace(id=id, title=title, paths=SimpleNamespace(dir=folder))


def status(observation: Observation, name: str = "nemo-demo-run", job_id: str | None = "75") -> TaskStatus:
    folder = f"/w/experiments/nemo-demo-run/nemo-demo-run_1753123402/{name}"
    job = Job(name, TaskPaths(folder, folder), Handle(job_id) if job_id else None)
    executor: Any = SimpleNamespace(kind="slurm", title="SlurmExecutor on @localhost")
    return TaskStatus(name, job, executor, observation)


GOLDEN = """\
Experiment Status for nemo-demo-run_1753123402

Task 0: nemo-demo-run
- Status: RUNNING
- Executor: SlurmExecutor on @localhost
- Job id: 75
- Local Directory: /w/experiments/nemo-demo-run/nemo-demo-run_1753123402/nemo-demo-run
- Log: /w/experiments/nemo-demo-run/nemo-demo-run_1753123402/nemo-demo-run/75.log
- Next: run.py logs -f nemo-demo-run_1753123402 nemo-demo-run

Task 1: eval
- Status: CANCELLED
- Executor: SlurmExecutor on @localhost
- Job id: none
- Local Directory: /w/experiments/nemo-demo-run/nemo-demo-run_1753123402/eval
- Skipped: nemo-demo-run did not succeed

Task 2: score
- Status: FAILED
- Executor: SlurmExecutor on @localhost
- Job id: 77
- Local Directory: /w/experiments/nemo-demo-run/nemo-demo-run_1753123402/score
- Exit code: 7
- Reason: exit code 7
- First failure: rank 5 on a3m-1 failed first: exit 7, KeyError: 'x'; 15 others followed
- Log: /w/experiments/nemo-demo-run/nemo-demo-run_1753123402/score/77.log
- Next: run.py logs nemo-demo-run_1753123402 score"""

FAILED = Observation(
    State.FAILED,
    raw="FAILED",
    reason="exit code 7",
    exit_code=7,
    nodes="a3m-[1-2]",
    started=1.0,
    ended=2.5,
    failure=Failure(5, "a3m-1", 7, exception="KeyError: 'x'", traceback="Traceback …", followed=15),
)


def test_the_block_word_for_word() -> None:
    statuses = [
        status(Observation(State.RUNNING, started=1.0)),
        status(Observation(State.CANCELLED, reason="nemo-demo-run did not succeed", skipped=True), "eval", None),
        status(FAILED, "score", "77"),
    ]
    assert block.render(experiment(), statuses) == GOLDEN


def test_a_reason_of_several_lines_stays_one_line_of_the_block() -> None:
    text = block.render(experiment(), [status(Observation(State.PENDING, reason="first\n\nsecond\x1b[31m"))])
    assert "- Reason: first second\\x1b[31m\n" in text


def test_an_answer_that_is_not_fresh_says_its_age() -> None:
    text = block.render(experiment(), [status(Observation(State.UNKNOWN, age=3900.0))])
    assert "- Last known: 1 h 5 min ago" in text


def test_nothing_to_follow_is_suggested_for_what_has_ended_well() -> None:
    assert "- Next:" not in block.render(experiment(), [status(Observation(State.SUCCEEDED, exit_code=0))])


def test_json_has_the_documented_keys() -> None:
    document = json.experiment(experiment(), [status(FAILED)], adopted=False)
    assert set(document) == {"schema_version", "experiment", "tasks", "adopted"}
    assert document["schema_version"] == 1
    assert document["experiment"] == {
        "id": "nemo-demo-run_1753123402",
        "title": "nemo-demo-run",
        "directory": "/w/experiments/nemo-demo-run/nemo-demo-run_1753123402",
    }
    [task] = document["tasks"]
    for line in (
        (json.__doc__ or "").split("tasks           list, in the order")[1].split("**status and")[0].splitlines()
    ):
        for key in line.strip().split("  ")[0].split(", "):
            if line.startswith(" " * 8) and key.isidentifier():
                assert key in task, f"{key} is documented"
    assert task["state"] == "FAILED"
    assert (task["final"], task["exit_code"], task["job_id"]) == (True, 7, "75")
    assert task["failure"]["exception"] == "KeyError: 'x'"
    assert all(key in (json.__doc__ or "") for key in task), "every key is documented"


def test_json_of_a_task_without_a_job() -> None:
    [task] = json.experiment(experiment(), [status(Observation(State.UNSUBMITTED), job_id=None)])["tasks"]
    assert (task["job_id"], task["log"], task["failure"], task["exit_code"]) == (None, None, None, None)


def test_json_text_is_ascii_whatever_the_names() -> None:
    assert json.dumps({"name": "é\udce9"}).isascii()


def test_attempts_are_counted_against_what_was_asked_for() -> None:
    told = status(Observation(State.RUNNING, attempt=1))
    executor: Any = told.executor
    executor.max_attempts = 4
    assert "- Attempt: 2 of at most 4\n" in block.render(experiment(), [told])
    executor.max_attempts = 1
    assert "- Attempt: 2\n" in block.render(experiment(), [told])
