"""Cancel, time limits and what a task leaves behind: afterwards no process of it is there."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import identity, records
from nemo_launch.executors.base import State
from nemo_launch.executors.local import LocalExecutor, processes
from tests.conformance.site import Run, Site

#: A program whose children ignore TERM: one in its session, one in another, one whose parents are gone.
STUBBORN = """#!/bin/bash
trap '' TERM
(while :; do sleep 0.1; done) &
setsid bash -c 'trap "" TERM; while :; do sleep 0.1; done' &
(setsid bash -c 'trap "" TERM; while :; do sleep 0.1; done' & )
sleep 0.1
echo up > up
while :; do sleep 0.1; done
"""


def left(run: Run, name: str) -> set[processes.Process]:
    return processes.members(run.where(name).job_dir)


def test_cancel_ends_the_stubborn_wherever_they_went(site: Site) -> None:
    run = site.launch(site.task("a", STUBBORN), grace="0:01")
    run.until_file(site.folder / "up")
    assert len(left(run, "a")) >= 4
    started = time.monotonic()
    assert run.cancel()["a"].state is State.CANCELLED
    assert left(run, "a") == set()
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("how", ["cancel", "kill", "terminate"])
def test_a_disk_without_room_for_the_marker_keeps_no_task_alive(
    site: Site, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\necho up > up\nexec sleep 100\n"), grace="0:05")
    run.until_file(site.folder / "up")
    write = records.write_json

    def full(path: str, *rest: Any, **more: Any) -> None:
        if path.endswith("cancelled"):
            raise records.unwritable(path, OSError(errno.ENOSPC, "No space left on device"))
        write(path, *rest, **more)

    monkeypatch.setattr(records, "write_json", full)
    getattr(run.executor, how)(run.jobs())
    assert run.wait()["a"].state.final
    assert left(run, "a") == set()


def test_kill_does_not_wait(site: Site) -> None:
    run = site.launch(site.task("a", STUBBORN), grace="5:00")
    run.until_file(site.folder / "up")
    executor = run.executor
    assert isinstance(executor, LocalExecutor)
    started = time.monotonic()
    seen = executor.kill(run.jobs())
    assert [o.state for o in seen.values()] == [State.CANCELLED]
    assert left(run, "a") == set()
    assert time.monotonic() - started < 60


def test_terminate_lets_it_save_and_kill_ends_it(site: Site) -> None:
    text = "#!/bin/bash\ntrap 'echo saving > saving' TERM\necho up > up\nwhile :; do sleep 0.1; done\n"
    run = site.launch(site.task("a", text), grace="0:01")
    run.until_file(site.folder / "up")
    executor = run.executor
    assert isinstance(executor, LocalExecutor)
    executor.terminate(run.jobs())
    run.until_file(site.folder / "saving")
    time.sleep(1.5)  # longer than the grace of a cancel
    assert run.poll()["a"].state is State.RUNNING
    assert [o.state for o in executor.kill(run.jobs()).values()] == [State.CANCELLED]


def test_a_process_that_saves_gets_term_once(site: Site) -> None:
    text = """import os, signal, sys, time
def term(*_):
    with open("terms", "a") as file:
        file.write("x")
signal.signal(signal.SIGTERM, term)
open("up", "w").write("up\\n")
while not os.path.exists("terms"):
    time.sleep(0.05)
time.sleep(0.5)
open("saved", "w").write("yes\\n")
"""
    run = site.launch(site.task("a", text, python=True), launcher="none", grace="1:00")
    run.until_file(site.folder / "up")
    seen = run.cancel()["a"]
    assert seen.state is State.CANCELLED
    assert (site.folder / "saved").exists()
    assert (site.folder / "terms").read_text() == "x"


def test_cancel_reaches_the_workers_of_torchrun(site: Site) -> None:
    text = """import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("pid-" + os.environ["RANK"], "w").write(f"{os.getpid()}\\n")
time.sleep(100)
"""
    run = site.launch(site.task("a", text, python=True), launcher="torchrun", ntasks_per_node=2, grace="0:01")
    pids = [int(run.until_file(site.folder / f"pid-{rank}")) for rank in range(2)]
    assert run.cancel()["a"].state is State.CANCELLED
    assert [identity.start_time(pid) for pid in pids] == [None, None]
    assert left(run, "a") == set()


def test_what_a_task_leaves_running_ends_with_it(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/bash\nsetsid sleep 100 &\nexit 0\n"), site.task("b", "true", after=["a"]))
    seen = run.wait()
    assert [o.state for o in seen.values()] == [State.SUCCEEDED] * 2
    assert left(run, "a") == set()


def test_the_time_limit(site: Site) -> None:
    text = "#!/bin/bash\ntrap '' TERM\nwhile :; do sleep 0.1; done\n"
    run = site.launch(
        site.task("a", text), site.task("b", "#!/bin/sh\ntouch ran\n", after=["a"]), time="0:02", grace="0:01"
    )
    seen = run.wait()
    assert seen["a"].state is State.FAILED
    assert "time limit" in seen["a"].reason
    assert seen["a"].started is not None and seen["a"].ended is not None
    assert 2 <= seen["a"].ended - seen["a"].started + 1 < 60
    assert seen["b"].skipped
    assert left(run, "a") == set()


def test_before_the_limit_a_checkpoint_is_asked_for(site: Site) -> None:
    text = """import os, time
while not os.path.exists(os.environ["NEMO_LAUNCH_CHECKPOINT_REQUESTED"]):
    time.sleep(0.05)
print("saved")
"""
    run = site.launch(site.task("a", text, python=True), launcher="none", time="5:00", margin="4:58")
    assert run.wait()["a"].state is State.SUCCEEDED
    assert "saved" in run.log("a")


def test_the_signal_that_was_asked_for_comes_with_it(site: Site) -> None:
    text = "#!/bin/bash\ntrap 'echo got it; exit 0' USR2\nwhile :; do sleep 0.1; done\n"
    run = site.launch(site.task("a", text), time="5:00", margin="4:57", signal="USR2")
    assert run.wait()["a"].state is State.SUCCEEDED
    assert "got it" in run.log("a")


def test_at_most_so_many_at_once(site: Site) -> None:
    text = '#!/bin/bash\necho + >> "turns"; while [ ! -e go ]; do sleep 0.1; done; sleep 0.2; echo - >> "turns"\n'
    run = site.launch(*(site.task(f"t{i}", text) for i in range(5)), max_parallel=2)
    turns = site.folder / "turns"
    run.until(lambda _: turns.exists() and len(turns.read_text().split()) == 2)
    waiting = [o for o in run.poll().values() if o.state is State.PENDING]
    assert len(waiting) == 3 and all("max_parallel" in o.reason for o in waiting)
    (site.folder / "go").touch()
    assert {o.state for o in run.wait().values()} == {State.SUCCEEDED}
    now = most = 0
    for turn in turns.read_text().split():
        now += 1 if turn == "+" else -1
        most = max(most, now)
    assert most == 2


def test_eight_at_once(site: Site) -> None:
    text = "#!/bin/bash\ntouch here-$1\nwhile [ $(ls here-* | wc -l) -lt 8 ]; do sleep 0.05; done\n"
    runs = [site.launch(site.task(f"t{i}", text, str(i))) for i in range(8)]
    assert all(o.state is State.SUCCEEDED for run in runs for o in run.wait().values())


def test_a_job_id_can_be_killed(site: Site) -> None:
    import os
    import signal

    run = site.launch(site.task("a", "#!/bin/sh\necho up > up\nsleep 100\n"), site.task("b", "true", after=["a"]))
    run.until_file(site.folder / "up")
    job = run.jobs("a")[0]
    assert job.handle is not None
    os.kill(int(job.handle.job_id), signal.SIGTERM)
    assert {o.state for o in run.wait().values()} == {State.CANCELLED}


def test_the_supervisor_is_small_and_sleeps(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n"))
    job = run.jobs()[0]
    assert job.handle is not None
    folder = Path("/proc") / job.handle.job_id
    run.until_running("a")

    def used() -> list[str]:
        return (folder / "stat").read_text().rpartition(")")[2].split()[11:13]

    deadline, before = time.monotonic() + 60, [""]
    while (now := used()) != before:  # once it has started, a second goes by without any
        assert time.monotonic() < deadline, "it uses the processor"
        before = now
        time.sleep(1)
    (resident,) = [line.split()[1] for line in (folder / "status").read_text().splitlines() if line[:6] == "VmRSS:"]
    assert int(resident) < 30_000
    (site.folder / "go").touch()
    run.wait()


SAVES = "#!/bin/bash\ntrap 'exit 0' TERM\necho up > up\nwhile :; do sleep 0.1; done\n"


def test_term_from_outside_is_no_success_however_well_it_was_taken(site: Site) -> None:
    run = site.launch(site.task("a", SAVES), site.task("b", "#!/bin/sh\n", after=["a"]))
    run.until_file(site.folder / "up")
    os.kill(int((records.read_json(run.where("a").state) or {})["pid"]), signal.SIGTERM)
    seen = run.wait()
    assert (seen["a"].state, seen["a"].reason) == (State.FAILED, "ended by SIGTERM from outside")
    assert seen["b"].skipped


def test_a_run_that_reaches_its_limit_has_failed_however_well_it_took_it(site: Site) -> None:
    run = site.launch(site.task("a", SAVES), time="0:01")
    seen = run.wait()["a"]
    assert (seen.state, seen.reason) == (State.FAILED, "reached its time limit")


def test_what_had_come_to_its_end_before_the_limit_keeps_its_result(site: Site) -> None:
    """Only what it left behind is ended: here it takes its time."""
    text = "#!/bin/bash\n(trap '' TERM; sleep 30) &\nexit 0\n"
    run = site.launch(site.task("a", text), site.task("b", "#!/bin/sh\n", after=["a"]), grace="0:03")
    run.until(lambda _: bool(list(Path(run.where("a").job_dir).glob("exit-*"))))
    assert run.cancel("a")["a"].state is State.SUCCEEDED


def test_a_task_that_nothing_keeps_waiting_is_starting(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n"))
    run.until_running("a")
    state = records.read_json(run.where("a").state) or {}
    records.write_json(run.where("a").state, {**state, "state": "waiting"})
    assert (run.poll()["a"].state, run.poll()["a"].reason) == (State.PENDING, "starting")
    (site.folder / "go").touch()
