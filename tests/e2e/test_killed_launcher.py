"""kill -9 of the launcher before, during and after each step of submission: no job is lost, none is doubled.

How often a payload ran is told by a file that it appends to, how many jobs there are by squeue; what the product
itself says comes third and must agree.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeScene
from tests.e2e.killing import TASK, Kill, Story, command, ended_first, on_disk
from tests.e2e.scene import Scene, names
from tests.faults import Rules, exists
from tests.lab import Lab

KILLS = {
    "while the snapshot is taken": Kill(on_disk("snapshots")),
    "folder claimed": Kill(on_disk("experiments/*/*")),
    "record written": Kill(on_disk("experiments/*/*/experiment.json")),
    "script written": Kill(on_disk(f"{TASK}/job.sh")),
    "intent written": Kill(on_disk(f"{TASK}/intent.json")),
    "sbatch entered, slow to submit": Kill(lambda s: s.commands.entered("sbatch"), Rules(before=2.5, held=1)),  # type: ignore[union-attr]
    "job submitted, answer on its way": Kill(lambda s: s.commands.returned("sbatch"), Rules(after=2.5, held=1)),  # type: ignore[union-attr]
    "sbatch slow on both sides": Kill(lambda s: s.commands.entered("sbatch"), Rules(before=1, after=1, held=1)),  # type: ignore[union-attr]
    "id written": Kill(on_disk(f"{TASK}/handle.json")),
    "block printed": Kill(lambda s: lambda: b"Local Directory" in (s.launcher.workspace / "out").read_bytes()),
}


def play(scene: Scene, kill: Kill) -> Story:
    """Launch, kill, ask, launch the same again, wait for the end."""
    assert scene.commands is not None
    scene.commands.set("sbatch", kill.rules)
    (scene.launcher.workspace / "out").touch()
    with (scene.launcher.workspace / "out").open("w") as out:
        killed = scene.killed(scene.start(*command(scene), stdout=out), kill.point(scene))
    finished = ended_first(scene, killed)
    first = scene.status() if scene.experiments() else None
    again = scene(*command(scene), timeout=200)
    for experiment in scene.experiments():
        last = scene.ended(experiment)
    time.sleep(1)  # a second job would have started by now
    return Story(killed, first, again, last, scene.experiments(), scene.jobs(), scene.ran(), finished)


@pytest.fixture(scope="module")
def stories(make_scene: MakeScene, slurm: Lab) -> Iterator[dict[str, Future[Story]]]:
    """All of them under way at once, because most of their time is waiting."""
    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(play, make_scene(slurm, True), kill) for name, kill in KILLS.items()}


@pytest.mark.parametrize("name", KILLS)
def test_the_same_launch_again_gives_exactly_one_job(stories: dict[str, Future[Story]], name: str) -> None:
    story = stories[name].result()
    assert story.again.returncode == 0, story.again.stderr
    assert len(story.experiments) == len(story.jobs) == len(story.ran) == story.launches
    (task,) = story.last
    assert (task["state"], task["exit_code"]) == ("SUCCEEDED", 0)
    assert task["job_id"] in story.jobs
    assert sorted(story.jobs) == sorted(line.split()[1] for line in story.ran)
    if story.first is not None:
        assert story.first[0]["state"] in ("UNSUBMITTED", "SUBMITTED", "PENDING", "RUNNING", "SUCCEEDED")
        assert story.first[0]["job_id"] in (None, *story.jobs)
        assert ("going on with" in story.again.stderr) != story.finished


def test_status_finds_the_job_whose_answer_never_came(stories: dict[str, Future[Story]]) -> None:
    story = stories["job submitted, answer on its way"].result()
    assert story.first is not None
    assert story.first[0]["job_id"] in story.jobs


def test_status_says_what_a_launch_that_died_before_submitting_needs(wrapped: Scene) -> None:
    """For secrets it asks how the site keeps its accounts, between the record and the first intent: held there."""
    assert wrapped.commands is not None
    wrapped.commands.set("scontrol", Rules(before=0.1, held=1))
    launcher = wrapped.start(*command(wrapped, "--secret", "MINE"), env={"MINE": "s3cr3t"})
    assert wrapped.killed(launcher, wrapped.commands.entered("scontrol"))
    assert wrapped.experiments() and not exists(wrapped.launcher.runs, f"{TASK}/intent.json")()
    (task,) = wrapped.status()
    assert task["state"] == "UNSUBMITTED"
    assert "same command again" in task["reason"]
    waited = wrapped("status", "--wait", timeout=30)  # there is nothing to wait for
    assert waited.returncode == 1


def test_again_makes_a_second_one(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1.5, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.returned("sbatch"))
    done = wrapped(*command(wrapped, "--again"))
    assert done.returncode == 0, done.stderr
    for experiment in wrapped.experiments():
        wrapped.ended(experiment)
    assert len(wrapped.experiments()) == len(wrapped.jobs()) == len(wrapped.ran()) == 2


def test_a_job_that_ended_before_the_next_launch_is_not_run_again(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.returned("sbatch"))
    deadline = time.monotonic() + 90
    while list(wrapped.jobs().values()) != ["COMPLETED"]:
        assert time.monotonic() < deadline, wrapped.jobs()
        time.sleep(0.3)
    done = wrapped(*command(wrapped))
    assert "going on with" in done.stderr
    assert "- Status: SUCCEEDED" in done.stdout
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1
    third = wrapped(*command(wrapped))  # that launch was seen through: this one is another
    assert "going on with" not in third.stderr
    assert len(wrapped.experiments()) == 2


def test_a_job_that_failed_is_gone_on_with_at_once_and_history_later(wrapped: Scene) -> None:
    """Who repairs the cause outside the script and launches the same again gets a run, and is told of the old one."""
    assert wrapped.commands is not None
    repaired = wrapped.launcher.workspace / "repaired"
    wrapped.launcher.write("payload.sh", '#!/bin/bash\necho "p $NEMO_LAUNCH_JOB_ID" >> "$2"\ntest -e "$3"\n', 0o755)
    words = ["--wait", *command(wrapped), str(repaired)]
    wrapped.commands.set("sbatch", after=1, held=1)
    wrapped.killed(wrapped.start(*words), wrapped.commands.returned("sbatch"))
    assert names(wrapped.ended()) == ["FAILED"]
    wrapped.commands.set("sbatch")
    (old,) = wrapped.experiments()
    for path in [*wrapped.launcher.runs.glob("experiments/*/*/launcher-0.json"), wrapped.directory() / "intent.json"]:
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "time": record["time"] - 3600}))
    repaired.touch()
    later = wrapped(*words)
    assert later.returncode == 0, later.stderr
    assert f"{old} ended FAILED" in later.stderr and "going on with" not in later.stderr
    assert len(wrapped.experiments()) == len(wrapped.ran()) == 2
    assert "interrupted" not in wrapped(*words).stderr  # told once


def test_a_job_that_failed_a_moment_ago_is_named_plainly(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.launcher.write("payload.sh", '#!/bin/bash\necho "p" >> "$2"\nexit 3\n', 0o755)
    wrapped.commands.set("sbatch", after=1, held=1)
    wrapped.killed(wrapped.start("--wait", *command(wrapped)), wrapped.commands.returned("sbatch"))
    assert names(wrapped.ended()) == ["FAILED"]
    again = wrapped("--wait", *command(wrapped))
    assert again.returncode == 1
    assert "has already ended FAILED: nothing new runs. --again starts another" in again.stderr
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1


def test_status_heals_first_and_then_the_same_launch_shows_that_job(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.returned("sbatch"))
    (healed,) = wrapped.status()
    assert wrapped.directory().joinpath("handle.json").exists()
    done = wrapped(*command(wrapped))
    assert f"- Job id: {healed['job_id']}" in done.stdout
    wrapped.ended()
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1


def test_a_job_that_wrote_into_the_work_dir_does_not_make_the_request_another(wrapped: Scene) -> None:
    """The next snapshot has other files in it; the command is the same."""
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    inside = str(wrapped.launcher.work / "written-by-the-job")
    words = ["-e", "slurm", "-p", "a3m", "-s", "payload.sh", "--", "payload", inside]
    wrapped.killed(wrapped.start(*words), wrapped.commands.returned("sbatch"))
    wrapped.ended()
    assert Path(inside).exists()
    done = wrapped(*words)
    assert "files have changed since" in done.stderr
    assert len(wrapped.jobs()) == 1


def test_an_edited_script_is_another_request(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.returned("sbatch"))
    wrapped.launcher.write("payload.sh", '#!/bin/bash\necho "edited $2" >> "$2"\n', 0o755)
    wrapped(*command(wrapped))
    for experiment in wrapped.experiments():
        wrapped.ended(experiment)
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 2


def test_a_cancelled_launch_is_not_gone_on_with(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    words = [*command(wrapped), "60"]
    wrapped.killed(wrapped.start(*words), wrapped.commands.returned("sbatch"))
    ended = wrapped("cancel", "payload")
    assert "- Status: CANCELLED" in ended.stdout, ended
    assert names(wrapped.status()) == ["CANCELLED"]
    done = wrapped(*words)
    assert "going on with" not in done.stderr
    assert len(wrapped.experiments()) == 2
    wrapped("cancel", "payload")


def test_interrupted_while_it_submits(wrapped: Scene) -> None:
    """Ctrl-C reaches sbatch as well; whether the job came to be is found out afterwards."""
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=3, held=1)
    process = wrapped.start(*command(wrapped), stderr=subprocess.PIPE)
    deadline = time.monotonic() + 90
    while not wrapped.commands.returned("sbatch")():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    wrapped.commands.release()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run.py: interrupted" in said and "status" in said
    (task,) = wrapped.status()
    assert [task["job_id"]] == list(wrapped.jobs())
    assert "going on with" in wrapped(*command(wrapped)).stderr
    wrapped.ended()
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_not_asked_to_run_it_again(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", before=1, held=1)
    wrapped.killed(wrapped.start(*command(wrapped, "--sbatch-arg=--hold")), wrapped.commands.entered("sbatch"))
    deadline = time.monotonic() + 90
    while not wrapped.commands.returned("sbatch")():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    error = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    for name in ("squeue", "sacct"):
        wrapped.commands.set(name, Rules(refuse_first=1000, error=error))
    assert "does not say" in wrapped.status()[0]["reason"]
    done = wrapped(*command(wrapped, "--sbatch-arg=--hold"))
    assert done.returncode == 3
    assert "cannot be said yet" in done.stderr
    for name in ("squeue", "sacct"):
        wrapped.commands.set(name)
    assert wrapped(*command(wrapped, "--sbatch-arg=--hold")).returncode == 0
    assert len(wrapped.jobs()) == 1
    wrapped("cancel", "payload")


# -- the adopting launch has its own troubles ----------------------------------------------------------------------


def test_the_adopting_launch_is_killed_too(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", before=3, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.entered("sbatch"), release=False)
    second = wrapped.start(*command(wrapped))
    assert wrapped.killed(second, exists(wrapped.launcher.runs, "experiments/*/*/launcher-1.json"))
    done = wrapped(*command(wrapped), timeout=200)
    assert done.returncode == 0, done.stderr
    wrapped.ended()
    assert len(wrapped.experiments()) == len(wrapped.jobs()) == len(wrapped.ran()) == 1


def test_two_adopters_at_once(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", before=2, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.entered("sbatch"), release=False)
    errors = [wrapped.launcher.workspace / f"err{number}" for number in range(2)]
    both = []
    for path in errors:
        with path.open("w") as file:
            both.append(wrapped.start(*command(wrapped), stderr=file))
    deadline = time.monotonic() + 60
    while not any("waiting for it" in path.read_text() for path in errors):  # both have found it
        assert time.monotonic() < deadline
        time.sleep(0.1)
    wrapped.commands.release()
    codes = [process.wait(200) for process in both]
    said = [path.read_text() for path in errors]
    assert codes == [0, 0], said
    assert all("going on with" in text for text in said)
    wrapped.ended()
    assert len(wrapped.experiments()) == len(wrapped.jobs()) == len(wrapped.ran()) == 1


@pytest.mark.slow
def test_a_launch_from_another_machine_is_neither_lost_nor_doubled(wrapped: Scene) -> None:
    """The home is shared, the process cannot be seen: refused for some minutes, then gone on with."""
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.returned("sbatch"))
    (owner,) = wrapped.launcher.runs.glob("experiments/*/*/launcher-0.json")
    mine = json.loads(owner.read_text())
    owner.write_text(json.dumps({**mine, "host": "login-7", "boot": "another"}))
    wrapped.ended()
    done = wrapped(*command(wrapped))
    assert done.returncode == 3
    assert "login-7" in done.stderr and "--again" in done.stderr
    owner.write_text(json.dumps({**mine, "host": "login-7", "boot": "another", "time": mine["time"] - 3600}))
    assert "going on with" in wrapped(*command(wrapped)).stderr
    assert len(wrapped.experiments()) == len(wrapped.jobs()) == len(wrapped.ran()) == 1


# -- sbatch dies, or answers oddly ---------------------------------------------------------------------------------


@pytest.mark.parametrize("entered", [True, False], ids=["before it submitted", "after it submitted"])
def test_sbatch_itself_is_killed(wrapped: Scene, entered: bool) -> None:
    commands = wrapped.commands
    assert commands is not None
    commands.set("sbatch", before=5 * entered, after=5 * (not entered), held=1)
    process = wrapped.start(*command(wrapped), stderr=subprocess.PIPE)
    point = commands.entered("sbatch") if entered else commands.returned("sbatch")
    deadline = time.monotonic() + 90
    while not point():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(json.loads((commands.directory / "sbatch.1.entered").read_text())["pid"], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    commands.set("sbatch")
    if entered:
        assert process.returncode == 3
        assert "was not submitted" in said and "Traceback" not in said
        assert wrapped.jobs() == {}
    else:
        assert process.returncode == 0, said
    done = wrapped(*command(wrapped)) if entered else None
    assert done is None or done.returncode == 0
    wrapped.ended()
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (Rules(banner="Welcome to cluster 7\n123 users today\n"), 0),
        (Rules(silent=True), 0),
        (Rules(fail_first=1), 0),
    ],
    ids=["a banner with digits", "nothing and status 0", "Socket timed out after it was accepted"],
)
def test_odd_answers_lose_and_double_nothing(wrapped: Scene, rules: Rules, code: int) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", rules)
    done = wrapped(*command(wrapped))
    assert done.returncode == code, done.stderr
    (task,) = wrapped.ended()
    assert [task["job_id"]] == list(wrapped.jobs())
    assert len(wrapped.ran()) == 1


def test_a_submission_that_never_arrived_leaves_nothing(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", refuse_first=1)
    done = wrapped(*command(wrapped))
    assert done.returncode == 3
    assert "Socket timed out" in done.stderr
    assert wrapped.experiments() == []
    assert wrapped(*command(wrapped)).returncode == 0
    wrapped.ended()
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1


# -- on this machine -----------------------------------------------------------------------------------------------


LOCAL = ["snapshots", "experiments/*/*", "experiments/*/*/experiment.json", f"{TASK}/intent.json", f"{TASK}/claim"]


@pytest.mark.parametrize("pattern", LOCAL)
def test_a_local_launch_that_is_killed_runs_once(here: Scene, pattern: str) -> None:
    words = ["-s", "payload.sh", "--detach", "--", "payload", str(here.launcher.workspace / "ran")]
    killed = here.killed(here.start(*words), exists(here.launcher.runs, pattern))
    done = here(*words)
    assert done.returncode == 0, done.stderr
    assert names(here.ended()) == ["SUCCEEDED"]
    if killed:
        assert len(here.experiments()) == len(here.ran()) == 1
