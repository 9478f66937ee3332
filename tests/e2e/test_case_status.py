"""Field cases about status (21, 22, 24, 25, 40-44) and Ctrl-C (31), through the front door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.executors.base import Handle, Job, Observation, State
from nemo_launch.executors.slurm import SlurmExecutor
from nemo_launch.experiments import waiting
from nemo_launch.experiments.observing import TaskStatus
from nemo_launch.layout import TaskPaths
from tests.e2e.conftest import MakeScene
from tests.e2e.scene import Scene, names
from tests.faults import Rules
from tests.lab import Lab

SLURM = ["-e", "slurm", "-p", "a3m"]


def payload(scene: Scene, seconds: float | Path = 0) -> list[str]:
    """Takes so many seconds, or waits for a file."""
    return ["-s", "payload.sh", "--", "payload", str(scene.launcher.workspace / "ran"), str(seconds)]


def go(scene: Scene) -> Path:
    """Made by a test that has seen enough."""
    return scene.launcher.workspace / "go"


def running(tasks: list[dict[str, Any]]) -> bool:
    return names(tasks) == ["RUNNING"] * len(tasks)


# -- 21, 22: what the scheduler does not say -----------------------------------------------------------------------


def test_case_21_without_accounting_the_status_is_right(make_scene: MakeScene, slurm_noacct: Lab) -> None:
    scene = make_scene(slurm_noacct, wrapped=True)
    scene.launcher.write("seven.sh", "exit 7\n", 0o755)
    assert scene(*SLURM, "--wait", *payload(scene)).returncode == 0
    assert scene(*SLURM, "--wait", "-s", "seven.sh").returncode == 1
    assert scene.commands is not None
    for forgotten in (False, True):
        scene.commands.set("squeue", Rules(silent=forgotten))
        kept = list(scene.launcher.runs.rglob("seen.json"))
        assert len(kept) == 2
        for path in kept:
            path.unlink()  # what was known before must not be what answers
        assert names(scene.status("payload")) == ["SUCCEEDED"]
        (task,) = scene.status("seven")
        assert (task["state"], task["exit_code"]) == ("FAILED", 7)


def test_case_22_gone_from_the_queue_and_not_yet_in_accounting(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    assert wrapped(*SLURM, *payload(wrapped, go(wrapped))).returncode == 0
    wrapped.until(running)
    wrapped.commands.set("squeue", Rules(silent=True))
    wrapped.commands.set("sacct", Rules(silent=True))
    (task,) = wrapped.status()
    assert (task["state"], task["final"]) == ("RUNNING", False)
    assert task["age"] is not None and task["age"] >= 0
    assert "accounting" in task["reason"]
    text = wrapped("status").stdout
    assert "- Status: RUNNING" in text and "- Last known:" in text
    wrapped.commands.set("squeue")
    wrapped.commands.set("sacct")
    go(wrapped).touch()
    assert names(wrapped.ended()) == ["SUCCEEDED"]


def test_case_22_a_controller_that_does_not_answer_ends_nothing(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    assert wrapped(*SLURM, *payload(wrapped, go(wrapped))).returncode == 0
    wrapped.until(running)
    error = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    for name in ("squeue", "sacct"):
        wrapped.commands.set(name, Rules(refuse_first=1000, error=error))
    (task,) = wrapped.status()
    assert task["state"] == "RUNNING" and "does not answer" in task["reason"]
    assert wrapped.jobs() and "CANCELLED" not in wrapped.jobs().values()
    go(wrapped).touch()


# -- 24, 44: exit codes and the rank that failed first -------------------------------------------------------------


@pytest.mark.parametrize("words", [["-e", "local"], SLURM], ids=["local", "slurm"])
def test_case_24_exit_code_seven_arrives_as_seven(make_scene: MakeScene, slurm: Lab, words: list[str]) -> None:
    scene = make_scene(slurm)
    scene.launcher.write("seven.sh", "exit 7\n", 0o755)
    done = scene(*words, "--wait", "-s", "seven.sh")
    assert done.returncode == 1
    assert "exit code 7" in done.stderr
    assert "- Status: FAILED" in done.stdout and "- Exit code: 7" in done.stdout
    (task,) = scene.status()
    assert (task["state"], task["exit_code"]) == ("FAILED", 7)
    assert scene("status", "--wait").returncode == 1


RAISES = """\
import os, sys, time
if os.environ["RANK"] == "5":
    time.sleep(0.5)
    {"a": 1}["the missing key"]
time.sleep(600)
"""


def test_case_44_one_rank_of_sixteen_raises(there: Scene) -> None:
    there.launcher.write("raises.py", RAISES)
    words = ["-n", "2", "--ntasks-per-node", "8", "--cpus-per-task", "1", "--launcher", "srun", "-s", "raises.py"]
    done = there(*SLURM, *words, "--wait")
    assert done.returncode == 1
    (task,) = there.status()
    assert (task["state"], task["exit_code"]) == ("FAILED", 1)
    failure = task["failure"]
    assert (failure["rank"], failure["node"], failure["exit_code"]) == (5, "a3m-0", 1)
    assert failure["exception"] == "KeyError: 'the missing key'"
    assert failure["followed"] == 15
    assert "rank 5 on a3m-0 failed first: exit 1, KeyError: 'the missing key'; 15 others followed" in done.stdout


# -- 25: few questions ---------------------------------------------------------------------------------------------

FIFTY = """
import nemo_launch as nl
executor = nl.SlurmExecutor(partition="a3u", sbatch_args=["--hold"])
with nl.Experiment("fifty", executor=executor) as exp:
    for number in range(50):
        exp.add(nl.Script("payload.sh", args=["x", {ran!r}]), name=f"t{{number}}")
    exp.run(detach=True)
"""


def test_case_25_fifty_jobs_cost_one_question(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    done = wrapped.run_python(FIFTY.format(ran=str(wrapped.launcher.workspace / "ran")))
    assert done.returncode == 0, done.stderr
    assert len(wrapped.jobs()) == 50

    def asked() -> tuple[int, int]:
        assert wrapped.commands is not None
        return len(wrapped.commands.calls("squeue")), len(wrapped.commands.calls("sacct"))

    before = asked()
    assert names(wrapped.status("fifty")) == ["PENDING"] * 50
    after = asked()
    assert after[0] - before[0] == 1
    assert after[1] - before[1] <= 1
    waits = wrapped.start("status", "--wait", "fifty")
    deadline = time.monotonic() + 90
    while asked()[0] < after[0] + 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    waits.send_signal(signal.SIGINT)
    waits.wait(60)
    first, second = wrapped.commands.calls("squeue")[after[0] : after[0] + 2]
    assert second.entered - first.entered >= 10
    assert asked()[1] - after[1] <= asked()[0] - after[0]
    wrapped("cancel", "fifty", timeout=60)
    assert set(wrapped.jobs().values()) == {"CANCELLED"}


class PendingJob:
    """A Slurm job as the code that waits sees it, and a clock that goes on only when that code sleeps."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.asked: list[float] = []
        self.state = State.PENDING
        self.job = Job("t", TaskPaths(str(folder), str(folder)), Handle("42"))
        self.executor = SlurmExecutor(partition="a3m")
        self.at: dict[int, Callable[[], object]] = {}
        """What happens after so many questions, half an interval later."""

    def ask(self) -> list[TaskStatus]:
        self.asked.append(self.now)
        if len(self.asked) == 30:
            self.state = State.SUCCEEDED
        return [TaskStatus("t", self.job, self.executor, Observation(self.state))]

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self.asked[-1] + 4.5 and (happens := self.at.pop(len(self.asked), None)):
            happens()

    def wait(self, timeout: float | None = None) -> list[float]:
        """The seconds between the questions until it has succeeded."""
        waiting.wait(self.ask, None, timeout, self.sleep, lambda: self.now)
        return [round(after - before, 3) for before, after in pairwise(self.asked)]


def test_case_25_the_time_between_two_questions_grows_from_ten_seconds(tmp_path: Path) -> None:
    gaps = PendingJob(tmp_path).wait()
    assert len(gaps) == 29
    assert 10 <= gaps[0] < 11
    assert all(after > before for before, after in pairwise(gaps[:4]))
    assert all(after >= before for before, after in pairwise(gaps))
    assert 30 <= gaps[-1] <= 60


def test_case_25_news_makes_it_ask_sooner_and_not_more_often(tmp_path: Path) -> None:
    """A state that changed starts with ten seconds again; an exit record is looked into at once, one question each."""
    job = PendingJob(tmp_path)
    job.at = {10: lambda: setattr(job, "state", State.RUNNING), 20: (tmp_path / "exit-42-0.json").touch}
    gaps = job.wait()
    assert gaps[9] == gaps[8] and 10 <= gaps[10] < 11
    assert 4.5 <= gaps[19] < 6
    assert [gap for gap in gaps if gap < 10] == [gaps[19]]


def test_case_25_a_time_limit_ends_the_waiting_between_two_questions(tmp_path: Path) -> None:
    job = PendingJob(tmp_path)
    assert job.wait(timeout=25) == [pytest.approx(10, abs=1)]
    assert 1025 <= job.now < 1026


# -- 31: Ctrl-C ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["--wait", "--follow"])
def test_case_31_interrupting_a_launcher_that_waits_for_a_remote_job(there: Scene, mode: str) -> None:
    process = there.start(*SLURM, mode, *payload(there, 600), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not there.ran():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "logs -f payload_" in said and "cancel payload_" in said and "Traceback" not in said
    assert names(there.status()) == ["RUNNING"]
    there("cancel", "payload")


TRAPS = """\
#!/bin/bash
trap 'echo saved; exit 0' TERM
%s
echo started >> "$1"
while :; do sleep 0.1; done
"""


def interrupted(scene: Scene, text: str, presses: int) -> tuple[int, str, str]:
    scene.launcher.write("traps.sh", text, 0o755)
    words = ["-s", "traps.sh", "--", str(scene.launcher.workspace / "ran")]
    err = scene.launcher.workspace / "err"
    with err.open("w") as file:
        process = scene.start(*words, stdout=subprocess.PIPE, stderr=file)
    deadline = time.monotonic() + 60
    while not scene.ran():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for press in range(presses):
        while press and "Ctrl-C again kills it" not in err.read_text():
            assert time.monotonic() < deadline + 60
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=90)
    return process.returncode, out, err.read_text()


def test_case_31_one_interrupt_asks_a_local_run_to_end(here: Scene) -> None:
    code, out, err = interrupted(here, TRAPS % "", 1)
    assert code == 130
    assert "saved" in out and "TERM" in err
    assert names(here.status()) == ["CANCELLED"]


def test_case_31_two_interrupts_kill_a_local_run(here: Scene) -> None:
    code, out, err = interrupted(here, TRAPS % "trap '' TERM", 2)
    assert code == 130
    assert "saved" not in out and "kill" in err
    assert names(here.status()) == ["CANCELLED"]


# -- 40: local tasks outlive their launcher ------------------------------------------------------------------------

CHAIN = """
import nemo_launch as nl
with nl.Experiment("chain") as exp:
    ran = {ran!r}
    a = exp.add(nl.Script("payload.sh", args=["a", ran, {go!r}]), name="a")
    bad = exp.add(nl.Script("fails.sh"), name="bad", dependencies=[a])
    exp.add(nl.Script("payload.sh", args=["after-bad", ran]), name="skipped", dependencies=[bad])
    exp.add(nl.Script("payload.sh", args=["long", ran, "600"]), name="long", dependencies=[a])
    exp.run()
"""


def test_case_40_local_tasks_go_on_without_their_launcher(here: Scene) -> None:
    here.launcher.write("fails.sh", "exit 3\n", 0o755)
    process = here.start_python(CHAIN.format(ran=str(here.launcher.workspace / "ran"), go=str(go(here))))
    assert here.killed(process, lambda: here.ran() != [])
    assert names(here.status("chain")) == ["RUNNING", "PENDING", "PENDING", "PENDING"]
    go(here).touch()
    tasks = here.until(lambda tasks: tasks[3]["state"] == "RUNNING", "chain")
    tasks = here.until(lambda tasks: tasks[2]["final"], "chain")
    assert names(tasks) == ["SUCCEEDED", "FAILED", "CANCELLED", "RUNNING"]
    assert (tasks[1]["exit_code"], tasks[2]["skipped"]) == (3, True)
    assert here("cancel", "chain").returncode == 0
    assert names(here.status("chain")) == ["SUCCEEDED", "FAILED", "CANCELLED", "CANCELLED"]
    assert [line.split()[0] for line in here.ran()] == ["a", "long"]


# -- 41-43 ---------------------------------------------------------------------------------------------------------


def test_case_41_scancel_from_outside_stays(there: Scene) -> None:
    lab = there.launcher.lab
    assert lab is not None
    assert there(*SLURM, *payload(there, 600)).returncode == 0
    (task,) = there.until(lambda tasks: running(tasks) and there.ran() != [])
    lab.scancel(task["job_id"])
    (task,) = there.ended()
    assert task["state"] == "CANCELLED"
    time.sleep(2)
    assert names(there.status()) == ["CANCELLED"]
    assert list(there.jobs().values()) == ["CANCELLED"]
    assert len(there.ran()) == 1


@pytest.mark.parametrize("slow", [0.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_case_41_scancel_stays_where_the_site_would_restart_and_the_controller_is_slow(
    wrapped: Scene, slow: float
) -> None:
    """This version asks for no restarts, so the site's administrator allows them."""
    lab, commands = wrapped.launcher.lab, wrapped.commands
    assert lab is not None and commands is not None
    assert wrapped(*SLURM, *payload(wrapped, 600)).returncode == 0
    (task,) = wrapped.until(lambda tasks: running(tasks) and wrapped.ran() != [])
    net = ["nsenter", f"--net=/run/netns/{lab.netns}"] if lab.netns else []
    update = [*net, "scontrol", "update", f"JobId={task['job_id']}", "Requeue=1"]
    subprocess.run(update, env={**os.environ, "SLURM_CONF": str(lab.conf)}, check=True, timeout=30)
    for name in ("squeue", "sacct"):
        commands.set(name, Rules(before=slow, after=slow))
    lab.scancel(task["job_id"])
    (task,) = wrapped.ended()
    assert task["state"] == "CANCELLED"
    time.sleep(8)  # a requeued job of this cluster would be waiting or running again by now
    assert names(wrapped.status()) == ["CANCELLED"]
    assert list(wrapped.jobs().values()) == ["CANCELLED"]
    assert len(wrapped.ran()) == 1


def test_case_42_an_attempt_killed_hard_has_not_the_result_of_the_one_before(
    make_scene: MakeScene, slurm_noacct: Lab
) -> None:
    """Restarts are not part of this version, so the site's administrator requeues the job."""
    scene, lab = make_scene(slurm_noacct, wrapped=True), slurm_noacct
    assert scene.commands is not None
    assert scene(*SLURM, *payload(scene, go(scene))).returncode == 0
    (job,) = scene.jobs()

    def root(*argv: str) -> None:
        net = ["nsenter", f"--net=/run/netns/{lab.netns}"] if lab.netns else []
        subprocess.run([*net, *argv], env={**os.environ, "SLURM_CONF": str(lab.conf)}, check=True, timeout=30)

    root("scontrol", "update", f"JobId={job}", "Requeue=1")
    go(scene).touch()
    record = scene.directory() / f"exit-{job}-0.json"
    deadline = time.monotonic() + 60
    while not record.exists() or scene.jobs()[job] != "COMPLETED":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert json.loads(record.read_text())["exit_code"] == 0
    go(scene).unlink()
    root("scontrol", "requeue", job)
    while not (scene.directory() / f"started-{job}-1.json").exists():
        assert time.monotonic() < deadline + 60, scene.jobs()
        time.sleep(0.2)
    (task,) = scene.until(running)
    assert task["attempt"] == 1
    scripts = [
        int(entry)
        for entry in filter(str.isdigit, os.listdir("/proc"))
        if _is_batch_script(entry, job) and str(scene.launcher.workspace) in _environment(entry)
    ]
    assert scripts
    for pid in scripts:
        os.kill(pid, signal.SIGKILL)
    (task,) = scene.ended()
    assert task["state"] == "FAILED", task
    scene.commands.set("squeue", Rules(silent=True))
    assert names(scene.status()) == ["FAILED"]


def _environment(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def _is_batch_script(pid: str, job: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"slurm_script" in words[1] if len(words) > 1 and f"job{int(job):05d}".encode() in words[1] else False


AROUND = {
    "SQUEUE_STATES": "PD",
    "SQUEUE_FORMAT": "%j",
    "SQUEUE_ALL": "1",
    "SACCT_FORMAT": "JobName",
    "SLURM_TIME_FORMAT": "relative",
    "SLURM_CLUSTERS": "nowhere",
    "SQUEUE_CLUSTERS": "nowhere",
    "LC_ALL": "C.UTF-8",
}


def test_case_43_what_is_set_around_status_changes_nothing(there: Scene) -> None:
    done = there.run([*SLURM, *payload(there, go(there))], AROUND)
    assert done.returncode == 0, done.stderr
    (task,) = there.until(running, env=AROUND)
    assert abs(task["started"] - time.time()) < 600
    go(there).touch()
    (task,) = there.ended(env=AROUND)
    assert (task["state"], task["exit_code"]) == ("SUCCEEDED", 0)
    for left in there.directory().glob("seen.json"):
        left.unlink()
    assert names(there.status(env=AROUND)) == ["SUCCEEDED"]


def test_case_43_what_is_set_around_status_changes_no_answer_of_accounting(wrapped: Scene) -> None:
    """The queue has forgotten the job and its own records are gone, so that only sacct can tell."""
    assert wrapped.commands is not None
    wrapped.launcher.write("seven.sh", "exit 7\n", 0o755)
    assert wrapped(*SLURM, "--wait", "-s", "seven.sh").returncode == 1
    for pattern in ("seen.json", "exit-*.json", "ranks-*/first-failure.json"):
        for path in wrapped.directory().glob(pattern):
            path.unlink()
    wrapped.commands.set("squeue", Rules(silent=True))
    before = len(wrapped.commands.calls("sacct"))
    (task,) = wrapped.until(lambda tasks: tasks[0]["final"], env=AROUND)
    assert (task["state"], task["exit_code"]) == ("FAILED", 7)
    assert len(wrapped.commands.calls("sacct")) > before
    assert abs(task["ended"] - time.time()) < 600, "SLURM_TIME_FORMAT of the user would give another time"
