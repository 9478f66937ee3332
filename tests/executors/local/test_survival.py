"""What is launched outlives its launcher, terminal and supervisor; a launch that was cut short is all or nothing."""

from __future__ import annotations

import os
import pty
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_launch import identity, records
from nemo_launch.executors.base import Handle, Job, Recovery, State
from nemo_launch.executors.local import polling, processes
from nemo_launch.executors.local.observe import Facts, running_processes
from nemo_launch.experiments import ledger
from nemo_launch.layout import ExperimentPaths
from tests.conformance.conftest import make_local
from tests.conformance.site import Run, Site

Start = Callable[..., "subprocess.Popen[str]"]
WAIT = "while [ ! -e go ]; do sleep 0.05; done"


def says(launcher: subprocess.Popen[str], *lines: str) -> None:
    """Wait until it has come this far."""
    assert launcher.stdout is not None
    for line in lines:
        assert launcher.stdout.readline() == f"{line}\n"


def supervisor_of(run: Run) -> int:
    return int(run.jobs()[0].handle.job_id)  # type: ignore[union-attr]


def attach(site: Site) -> Run:
    """The experiment of ``start_launcher``, as a later command finds it on disk."""
    executor = make_local(grace="0:02")
    paths = ExperimentPaths(str(site.folder / "home"), "suite", "suite_0")
    tasks = [
        site.task("a", (site.folder / "a.sh").read_text()),
        site.task("b", (site.folder / "b.sh").read_text(), after=["a"]),
    ]
    plans = [executor.plan(task, paths.task(task.name)) for task in tasks]
    run = Run(executor, paths, plans, ledger.FileLedger({plan.task.name: plan.paths for plan in plans}))
    site.runs.append(run)
    return run


def test_tasks_outlive_a_killed_launcher(site: Site, start_launcher: Start) -> None:
    launcher = start_launcher(f"echo up > up; {WAIT}; exit 0", "echo b > ran")
    says(launcher, "planned", "launched")
    launcher.kill()
    launcher.wait()
    run = attach(site)
    run.until_file(site.folder / "up")
    seen = run.poll()
    assert (seen["a"].state, seen["b"].state) == (State.RUNNING, State.PENDING)
    assert seen["b"].reason == "waits for a"
    (site.folder / "go").touch()
    assert {name: o.state for name, o in run.wait().items()} == {"a": State.SUCCEEDED, "b": State.SUCCEEDED}
    assert (site.folder / "ran").exists()


def test_a_hung_up_terminal_ends_nothing(site: Site, start_launcher: Start) -> None:
    leader, terminal = pty.openpty()
    launcher = start_launcher(
        f"echo up > up; {WAIT}; exit 0", "true", stdin=terminal, start_new_session=True, preexec_fn=own_terminal
    )
    os.close(terminal)
    says(launcher, "planned", "launched")
    run = attach(site)
    run.until_file(site.folder / "up")
    os.close(leader)  # the kernel hangs up everybody who still belongs to the terminal
    launcher.wait(60)
    time.sleep(0.2)
    assert run.poll()["a"].state is State.RUNNING
    (site.folder / "go").touch()
    assert run.wait()["b"].state is State.SUCCEEDED


def own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_the_supervisor_ignores_interrupts(site: Site) -> None:
    run = site.launch(site.task("a", f"#!/bin/sh\n{WAIT}\n"))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        os.kill(supervisor_of(run), number)
    time.sleep(0.2)
    assert run.poll()["a"].state is State.RUNNING
    (site.folder / "go").touch()
    assert run.wait()["a"].state is State.SUCCEEDED


def test_tasks_get_signals_as_usual_although_the_launcher_ignores_some(site: Site) -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        run = site.launch(site.task("a", "#!/bin/sh\nkill -HUP $$\necho survived\n"))
    finally:
        signal.signal(signal.SIGHUP, old)
    seen = run.wait()["a"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 128 + signal.SIGHUP)


def test_with_its_supervisor_killed_a_task_goes_on_and_the_waiting_are_told_of(site: Site) -> None:
    run = site.launch(
        site.task("a", f"#!/bin/sh\necho up > up\n{WAIT}\nexit 7\n"),
        site.task("b", "#!/bin/sh\ntouch ran\n", after=["a"]),
    )
    run.until_file(site.folder / "up")
    os.kill(supervisor_of(run), signal.SIGKILL)
    run.until(lambda seen: seen["b"].state is State.FAILED)
    seen = run.poll()
    assert seen["a"].state is State.RUNNING
    assert "never started" in seen["b"].reason
    (site.folder / "go").touch()
    seen = run.wait()
    assert (seen["a"].state, seen["a"].exit_code) == (State.FAILED, 7)
    assert not (site.folder / "ran").exists()


def test_with_its_supervisor_killed_a_task_can_be_cancelled(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\ntrap '' TERM\necho $$ > up\nwhile :; do sleep 0.1; done\n"))
    pid = int(run.until_file(site.folder / "up"))
    os.kill(supervisor_of(run), signal.SIGKILL)
    assert run.cancel()["a"].state is State.CANCELLED
    assert identity.start_time(pid) is None
    assert run.poll()["a"].state is State.CANCELLED


def test_a_task_that_ends_while_it_is_looked_at_keeps_its_exit_code(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = site.launch(site.task("a", f"#!/bin/sh\necho up > up\n{WAIT}\nexit 7\n"))
    run.until_file(site.folder / "up")
    os.kill(supervisor_of(run), signal.SIGKILL)
    wait_for_its_end(run)

    def slowly(facts: Facts, now: processes.Snapshot) -> set[processes.Process]:
        (site.folder / "go").touch()
        while found := running_processes(facts, processes.Snapshot()):
            time.sleep(0.01)
        return found

    monkeypatch.setattr(polling, "running_processes", slowly)
    seen = run.poll()["a"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 7)


def test_with_its_supervisor_stopped_a_task_can_be_cancelled(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\necho $$ > up\nexec sleep 100\n"), grace="0:01")
    pid = int(run.until_file(site.folder / "up"))
    os.kill(supervisor_of(run), signal.SIGSTOP)
    assert run.cancel()["a"].state is State.CANCELLED
    assert identity.start_time(pid) is None
    os.kill(supervisor_of(run), signal.SIGCONT)
    wait_for_its_end(run)
    assert run.poll()["a"].state is State.CANCELLED


def test_with_its_supervisor_killed_before_it_wrote_anything_a_task_never_started(site: Site) -> None:
    run = site.launch(site.task("a", f"#!/bin/sh\n{WAIT}\n"), site.task("b", "#!/bin/sh\n", after=["a"]))
    os.kill(supervisor_of(run), signal.SIGKILL)
    Path(run.where("b").state).unlink()
    assert "never started" in run.until(lambda seen: seen["b"].state is State.FAILED)["b"].reason
    run.cancel()


def test_a_killed_batch_script_is_a_failure_without_exit_code(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\necho up > up\nsleep 100\n"))
    run.until_file(site.folder / "up")
    state = records.read_json(run.where("a").state)
    assert state is not None
    os.kill(state["pid"], signal.SIGKILL)
    seen = run.wait()["a"]
    assert (seen.state, seen.exit_code) == (State.FAILED, None)
    assert "SIGKILL" in seen.reason


def test_both_killed(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\necho $$ > up\nexec sleep 100\n"))
    pid = int(run.until_file(site.folder / "up"))
    state = records.read_json(run.where("a").state)
    assert state is not None
    os.kill(supervisor_of(run), signal.SIGKILL)
    os.kill(state["pid"], signal.SIGKILL)
    assert run.poll()["a"].state is State.RUNNING  # not over: processes are left
    os.kill(pid, signal.SIGKILL)
    seen = run.wait()["a"]
    assert seen.state is State.FAILED
    assert "without an exit code" in seen.reason


def test_a_restart_of_the_machine_is_told(site: Site) -> None:
    run = site.launch(site.task("a", f"#!/bin/sh\necho up > up\n{WAIT}\n"), site.task("b", "#!/bin/sh\n", after=["a"]))
    run.until_file(site.folder / "up")
    (job, _) = run.jobs()
    pid = supervisor_of(run)
    path = job.paths.supervisor(str(pid))
    known = records.read_json(path)
    assert known is not None
    (site.folder / "go").touch()
    run.wait()
    wait_for_its_end(run)  # it still writes states of its own
    # as a restart would have left it
    for name in ("a", "b"):
        where = run.where(name)
        for left in Path(where.dir).glob("exit-*.json"):
            left.unlink()
    records.write_json(path, {**known, "boot": "another"})
    state = records.read_json(job.paths.state)
    assert state is not None
    records.write_json(job.paths.state, {"state": "running", "pid": state["pid"], "start": 1, "boot": "another"})
    records.write_json(run.where("b").state, {"state": "waiting"})
    Path(run.where("b").started(str(pid), 0)).unlink()
    seen = run.poll()
    assert (seen["a"].state, seen["a"].reason) == (State.FAILED, "the machine restarted while it ran")
    assert (seen["b"].state, "the machine restarted" in seen["b"].reason) == (State.FAILED, True)
    # and as it looks from another machine with the same home
    records.write_json(path, {**known, "boot": "another", "host": "far"})
    seen = run.poll()
    assert (seen["a"].state, "far" in seen["a"].reason) == (State.UNKNOWN, True)
    # and from outside the container that it runs in
    records.write_json(path, {**known, "space": "pid:[1]"})
    seen = run.poll()
    assert (seen["a"].state, "another container" in seen["a"].reason) == (State.UNKNOWN, True)


def test_a_task_has_one_supervisor(site: Site) -> None:
    run = site.launch(site.task("a", f"#!/bin/sh\necho x >> runs\n{WAIT}\n"))
    run.until_file(site.folder / "runs")
    from nemo_launch.errors import SchedulerRefused

    with pytest.raises(SchedulerRefused, match="already run by job"):
        run.executor.submit(run.plans, Book(run))
    (site.folder / "go").touch()
    assert run.wait()["a"].state is State.SUCCEEDED
    assert (site.folder / "runs").read_text() == "x\n"


class Book:
    """A ledger that writes nothing."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def intend(self, plan: object) -> None: ...
    def submitted(self, plan: object, handle: Handle) -> None: ...
    def withdrawn(self, plan: object) -> None: ...

    def refused(self, plan: object, reason: str) -> None: ...
    def handle(self, name: str) -> Handle | None:
        return None


def test_a_launcher_killed_at_any_instant_neither_loses_nor_doubles(site: Site, start_launcher: Start) -> None:
    dice = random.Random(20)
    outcomes: set[bool] = set()
    launcher = start_launcher("echo a >> runs", "echo b >> runs")
    says(launcher, "planned")
    started = time.monotonic()
    says(launcher, "launched")
    whole = time.monotonic() - started
    run = attach(site)
    run.wait()
    for number in range(60):
        if number >= 12 and len(outcomes) == 2:
            break
        wait_for_its_end(run)
        shutil.rmtree(site.folder / "home")
        (site.folder / "runs").unlink(missing_ok=True)
        launcher = start_launcher("echo a >> runs", "echo b >> runs")
        says(launcher, "planned")
        time.sleep(whole * dice.uniform(0.5, 1.1))
        launcher.kill()
        launcher.wait()
        run = attach(site)
        jobs = settled(run)
        outcomes.add(jobs is not None)
        whole *= 0.8 if jobs else 1.25  # closer to the instant that decides, however fast this machine is just now
        if jobs is None:  # nothing came of it, and nothing will: the same request goes through now
            for plan in run.plans:
                Path(plan.paths.dir).mkdir(parents=True, exist_ok=True)
            run.submit()
        seen = run.wait()
        assert {o.state for o in seen.values()} == {State.SUCCEEDED}
        assert (site.folder / "runs").read_text() == "a\nb\n"
    assert outcomes == {True, False}, "the killing came always too early, or always too late"


def wait_for_its_end(run: Run) -> None:
    """The supervisor's, which follows that of its last task."""
    known = records.read_json(run.jobs()[0].paths.supervisor(str(supervisor_of(run))))
    assert known is not None
    while identity.alive(known):
        time.sleep(0.01)


def settled(run: Run) -> list[Job] | None:
    """What the next launcher does: find out what became of the submission, and record the ids."""
    deadline = time.monotonic() + 60
    while True:
        jobs = run.jobs()
        answers = run.executor.recover(jobs)
        if Recovery.IN_FLIGHT not in answers.values():
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if all(answer is Recovery.GONE for answer in answers.values()):
        return None
    assert Recovery.GONE not in answers.values(), "all or nothing"
    for job in jobs:
        handle = answers[job.key]
        assert isinstance(handle, Handle)
        ledger.write_handle(job.paths, handle)
    return [job._replace(handle=answers[job.key]) for job in jobs]  # type: ignore[arg-type]
