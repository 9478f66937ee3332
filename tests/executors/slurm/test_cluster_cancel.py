"""On the real cluster: cancelling, from here and from outside, and what can never start."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nemo_launch.executors.base import Handle, State
from tests.conformance.site import Site
from tests.executors.slurm.conftest import WAIT, Counting, ask, go
from tests.faults.wrappers import Rules, WrappedCommands


def test_scancel_from_outside(site: Site) -> None:
    run = site.launch(site.task("outside", WAIT))
    run.until_running("outside")
    ask("scancel", str(run.jobs()[0].handle))
    assert run.wait()["outside"].state is State.CANCELLED


def test_scancel_from_outside_of_what_waits_for_another(site: Site) -> None:
    first = site.task("first", f"{WAIT}exit 7\n")
    run = site.launch(first, site.task("next", WAIT, after=["first"]), site.task("last", WAIT, after=["first"]))
    run.until_running("first")
    ask("scancel", str(run.jobs()[1].handle))
    seen = run.until(lambda seen: seen["next"].state.final)["next"]
    assert (seen.state, seen.skipped) == (State.CANCELLED, False)
    assert seen.reason.startswith("cancelled before it started")
    assert run.poll()["last"].state is State.PENDING
    go(site)
    assert run.wait()["last"].reason == "not started: first did not succeed"


def test_asked_alone_first_a_skipped_task_is_still_skipped_later(site: Site) -> None:
    run = site.launch(site.task("first", "#!/bin/sh\nexit 7\n"), site.task("next", WAIT, after=["first"]))
    (alone,) = run.jobs("next")
    deadline = time.monotonic() + 60
    while not run.executor.poll([alone])[alone.key].state.final:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert run.wait()["next"].skipped


SAVES = {
    "shell": "#!/bin/bash\ntrap 'exit 0' TERM\necho up > up\nwhile :; do sleep 0.1; done\n",
    "python": (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "open('up', 'w').write('up\\n')\ntime.sleep(60)\n"
    ),
}


@pytest.mark.parametrize(("kind", "ranks"), [("shell", 1), ("shell", 2), ("python", 2)])
def test_scancel_from_outside_of_a_run_that_takes_it_well(site: Site, kind: str, ranks: int) -> None:
    task = site.task("outside", SAVES[kind], python=kind == "python")
    launcher = {"launcher": "srun"} if ranks > 1 else {}
    run = site.launch(task, nodes=ranks, ntasks_per_node=ranks, partition="a3m", **launcher)
    run.until_file(site.folder / "up")
    time.sleep(0.5)  # the other ranks, too
    ask("scancel", str(run.jobs()[0].handle))
    seen: list[State] = []
    deadline = time.monotonic() + 60
    while not seen or not seen[-1].final:
        assert time.monotonic() < deadline
        seen.append(run.poll()["outside"].state)
        time.sleep(0.1)
    for _ in range(4):
        seen.append(run.poll()["outside"].state)
        time.sleep(0.5)
    assert set(seen) <= {State.RUNNING, State.CANCELLED} and seen[-1] is State.CANCELLED


def test_one_look_while_nobody_answers_settles_nothing(site: Site, wrapped: WrappedCommands) -> None:
    run = site.launch(site.task("away", SAVES["shell"]))
    run.until_file(site.folder / "up")
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    for name in ("squeue", "sacct"):
        wrapped.set(name, Rules(refuse_first=10**6, error=away))
    (job,) = run.jobs()
    ask("scancel", str(job.handle))
    deadline = time.monotonic() + 60
    while not list(Path(job.paths.job_dir).glob("exit-*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    seen = run.poll()["away"]
    assert not seen.state.final and seen.age is not None
    for name in ("squeue", "sacct"):
        wrapped.set(name)
    assert run.wait()["away"].state is State.CANCELLED


def test_cancel_while_the_controller_is_slow_to_hear(site: Site, wrapped: WrappedCommands) -> None:
    away = "scancel: error: Kill job error: Unable to contact slurm controller (connect failure)"
    wrapped.set("scancel", Rules(refuse_first=1, error=away))
    run = site.launch(site.task("slow", WAIT))
    run.until_running("slow")
    assert run.cancel()["slow"].state is State.CANCELLED
    assert len(wrapped.calls("scancel")) == 2


def test_cancel_of_many_is_one_command(site: Site, transport: Counting) -> None:
    run = site.launch(*(site.task(f"t{n}", WAIT) for n in range(5)))
    transport.programs()
    assert {o.state for o in run.cancel().values()} == {State.CANCELLED}
    assert transport.programs().count("scancel") == 1


def test_the_secrets_of_a_job_that_never_started_do_not_stay(site: Site) -> None:
    run = site.launch(site.task("never", WAIT), sbatch_args=["--begin=now+1hour"])
    file = Path(run.where("never").secrets)
    file.parent.mkdir()
    file.touch()
    run.poll()
    assert file.exists()
    run.cancel()
    assert not file.exists()


def test_cancel_of_a_job_whose_id_was_lost(site: Site) -> None:
    run = site.launch(site.task("lost", WAIT))
    handle = run.jobs()[0].handle
    os.unlink(run.where("lost").handle)
    assert run.cancel()["lost"].state is State.CANCELLED
    assert ask("squeue", "-h", "-j", str(handle), "-t", "PD,R", "-o", "%i") == ""


def test_what_can_never_start_is_taken_out_of_the_queue(site: Site) -> None:
    run = site.launch(site.task("bad", "#!/bin/sh\nexit 3\n"), site.task("next", WAIT))
    first, second = run.jobs()
    run.until(lambda seen: seen["bad"].state.final)
    (plan,) = (plan for plan in run.plans if plan.task.name == "next")
    run.cancel("next")
    # as an older launcher, or sbatch on a site that knows no --kill-on-invalid-dep, leaves it
    stuck = ask("sbatch", "--parsable", f"--dependency=afterok:{first.handle}", plan.paths.script)
    job = second._replace(handle=Handle(stuck), after=("bad",))
    left = [Path(p) for p in (job.paths.cancelled, job.paths.seen, job.paths.claim)]
    for path in [*left, *Path(job.paths.job_dir).glob("*-*.json")]:
        path.unlink(missing_ok=True)
    deadline = time.monotonic() + 60
    while not (seen := run.executor.poll([job])[job.key]).skipped:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert seen.state is State.CANCELLED
    deadline = time.monotonic() + 60
    while ask("squeue", "-h", "--me", "-t", "PD", "-o", "%i").split().count(stuck):
        assert time.monotonic() < deadline
        time.sleep(0.2)
