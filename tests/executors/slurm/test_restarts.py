"""Restarts on a real cluster: cause by cause, what starts again and what does not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_launch.executors.base import State
from tests.conformance.site import Run, Site
from tests.conformance.test_restarts import PAYLOAD, attempts
from tests.executors.slurm.conftest import Counting, make_site
from tests.lab import Lab


def root(lab: Lab, *argv: str) -> str:
    """A Slurm command of the site's administrator."""
    net = ["nsenter", f"--net=/run/netns/{lab.netns}"] if lab.netns else []
    env = {**os.environ, "SLURM_CONF": str(lab.conf), "LC_ALL": "C"}
    done = subprocess.run([*net, *argv], env=env, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout


@pytest.fixture
def bare(slurm_noacct: Lab, workspace: Path, transport: Counting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    yield from make_site(slurm_noacct, workspace, transport, monkeypatch)


def job_id(run: Run) -> str:
    (job,) = run.jobs("a")
    return str(job.handle)


# -- errors (more of them, on every executor: tests/conformance/test_restarts.py) --------------------------------------


def test_where_the_site_does_not_requeue_a_follow_up_job_goes_on(site: Site, slurm: Lab) -> None:
    """The administrator takes the right to be requeued from the job, as a job_submit plug-in would."""
    go = site.folder / "go"
    task = site.task(
        "a", f"#!/bin/bash\nwhile [ ! -e {go} ]; do sleep 0.1; done\n" + PAYLOAD.split("\n", 1)[1], "7", "0"
    )
    run = site.launch(
        task,
        site.task("b", "#!/bin/sh\necho dependant\n", after=["a"]),
        resume_on="error",
    )
    run.until_running("a")
    first = job_id(run)
    root(slurm, "scontrol", "update", f"JobId={first}", "Requeue=0")
    go.touch()
    seen = run.wait(120)
    second = str(seen["a"].extra["job_id"])
    assert (seen["a"].state, seen["a"].attempt, seen["a"].exit_code) == (State.SUCCEEDED, 1, 0)
    assert seen["b"].state is State.SUCCEEDED
    where = Path(run.where("a").job_dir)
    assert "presently disabled" in (where / f"{first}.log").read_text()
    text = (where / f"{second}.log").read_text()
    assert "nemo_launch: attempt 2 of at most 11, because it failed" in text
    assert f"attempt 1 from {where}/checkpoints/latest" in text
    assert {path.name for path in where.glob("follow*")} == {f"follows-{second}.json"}
    whole = [source for source in run.executor.log_sources(*run.jobs("a")) if source.rank is None]
    assert [(source.attempt, Path(source.path).stem) for source in whole] == [(1, second), (0, first)]


# -- cancelled ----------------------------------------------------------------------------------------------------


SLOW = pytest.mark.slow


def at_last(slurm: Lab, job: str) -> str:
    """What squeue says of a job that is about to end, once its node is done with it."""
    deadline = time.monotonic() + 90
    while (state := root(slurm, "squeue", "-h", "-t", "all", "-o", "%T", "-j", job).strip()) == "COMPLETING":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return state


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("scancel", marks=SLOW),
        pytest.param("cancel", marks=SLOW),
        pytest.param("scancel of a pending restart", marks=SLOW),
    ],
)
def test_what_is_cancelled_stays_so(site: Site, slurm: Lab, how: str) -> None:
    codes = ["7", "0"] if how == "scancel of a pending restart" else ["wait", "0"]
    run = site.launch(site.task("a", PAYLOAD, *codes), resume_on="error,preempted,node_fail,timeout")
    if codes[0] == "wait":
        run.until(lambda seen: bool(attempts(run)))
    else:
        run.until(lambda seen: seen["a"].restarting and seen["a"].state is State.PENDING)
    if how == "cancel":
        run.cancel()
    else:
        root(slurm, "scancel", job_id(run))
    assert run.wait()["a"].state is State.CANCELLED
    time.sleep(8)  # a requeued job of this cluster would run again by now
    assert run.poll()["a"].state is State.CANCELLED
    assert at_last(slurm, job_id(run)) == "CANCELLED"
    assert len(attempts(run)) == 1


def test_cancel_and_requeue_in_the_same_moment(site: Site, slurm: Lab) -> None:
    """Slurm itself would bring it back to life."""
    run = site.launch(site.task("a", PAYLOAD, "wait", "0"), resume_on="error,preempted")
    run.until(lambda seen: bool(attempts(run)))
    root(slurm, "sh", "-c", f"scancel {job_id(run)}; scontrol requeue {job_id(run)}")
    assert run.wait()["a"].state is State.CANCELLED
    assert len(attempts(run)) == 1


@SLOW
def test_cancel_of_a_follow_up_job(site: Site, slurm: Lab) -> None:
    run = site.launch(
        site.task("a", "#!/bin/bash\nsleep 3\n" + PAYLOAD.split("\n", 1)[1], "7", "wait"), resume_on="error"
    )
    run.until_running("a")
    root(slurm, "scontrol", "update", f"JobId={job_id(run)}", "Requeue=0")
    seen = run.until(lambda seen: seen["a"].extra.get("job_id") is not None)
    assert run.cancel()["a"].state is State.CANCELLED
    second = str(seen["a"].extra["job_id"])
    assert at_last(slurm, second) == "CANCELLED"


# -- by hand, by preemption, by a node ------------------------------------------------------------------------------


@SLOW
@pytest.mark.parametrize("policy", ["never", "timeout"])
def test_who_requeues_by_hand_means_it(bare: Site, slurm_noacct: Lab, policy: str) -> None:
    run = bare.launch(bare.task("a", PAYLOAD, "wait", "0"), resume_on=policy)
    run.until(lambda seen: bool(attempts(run)))
    root(slurm_noacct, "scontrol", "update", f"JobId={job_id(run)}", "Requeue=1")
    root(slurm_noacct, "scontrol", "requeue", job_id(run))
    seen = run.wait(120)["a"]
    assert (seen.state, seen.attempt) == (State.SUCCEEDED, 1)
    assert "because somebody requeued it\n" in run.log("a")


@pytest.fixture
def preempted(
    slurm_preempt: Lab, workspace: Path, transport: Counting, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    yield from make_site(slurm_preempt, workspace, transport, monkeypatch)


def preempt(lab: Lab, run: Run) -> None:
    """A job of more importance takes the node for a moment."""
    run.until(lambda seen: bool(attempts(run)))
    node = run.poll()["a"].nodes
    argv = ["sbatch", "-p", "high", "-w", node, "--exclusive", "--mem=100", "-o", "/dev/null", "--wrap", "sleep 3"]
    root(lab, *argv)


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["a3m", "cancelled"])
def test_preempted(preempted: Site, slurm_preempt: Lab, partition: str) -> None:
    lab = slurm_preempt
    fields = {"partition": partition, "resume_on": "preempted", "exclusive": True, "nodelist": "a3m-0"}
    run = preempted.launch(preempted.task("a", PAYLOAD, "wait", "0"), **fields)
    preempt(lab, run)
    seen = run.wait(120)["a"]
    assert (seen.state, seen.attempt) == (State.SUCCEEDED, 1), run.log("a")
    assert "attempt 2 of at most 11, because it was preempted\n" in run.log("a")

    run = preempted.launch(preempted.task("a", PAYLOAD, "wait", "0"), **{**fields, "resume_on": "timeout,error"})
    preempt(lab, run)
    seen = run.wait(120)["a"]
    assert seen.state is State.FAILED and "preempted" in seen.reason
    assert len(attempts(run)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["node_fail", "preempted"])
def test_a_node_that_fails(bare: Site, slurm_noacct: Lab, policy: str) -> None:
    """Nobody is left there to write down anything, and there is no accounting."""
    run = bare.launch(bare.task("a", PAYLOAD, "wait", "0"), resume_on=policy, partition="a3u")
    run.until(lambda seen: bool(attempts(run)))
    node = run.poll()["a"].nodes
    try:
        for pid in processes_of(run):
            os.kill(pid, signal.SIGKILL)
        root(slurm_noacct, "scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        seen = run.wait(120)["a"]
    finally:
        if root(slurm_noacct, "sinfo", "-h", "-n", node, "-o", "%T").startswith("down"):
            root(slurm_noacct, "scontrol", "update", f"NodeName={node}", "State=RESUME")
    if policy == "node_fail":
        assert (seen.state, seen.attempt) == (State.SUCCEEDED, 1), run.log("a")
    else:
        assert seen.state is State.FAILED and "its node failed" in seen.reason
        assert len(attempts(run)) == 1


def processes_of(run: Run) -> list[int]:
    """Batch script, srun and payload, and the step managers above them."""
    mark = f"NEMO_LAUNCH_TASK_DIR={run.where('a').job_dir}".encode()
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                found.add(int(entry))
        except OSError:
            continue
    return sorted(found)


# -- the time limit -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("again", [True, False])
def test_the_time_limit(site: Site, slurm: Lab, again: bool) -> None:
    text = PAYLOAD.replace("wait)", 'wait) trap "echo asked" USR1; trap "echo saved; exit 143" TERM;')
    policy = "timeout" if again else "error,preempted,node_fail"
    run = site.launch(
        site.task("a", text, "wait", "0"), site.task("b", "#!/bin/sh\n", after=["a"]),
        resume_on=policy, time="1:00", margin="0:20", signal="USR1",
    )  # fmt: skip
    seen = run.wait(170)
    log = run.log("a")
    assert "nemo_launch: the end of this run is near: checkpoint requested" in log and "asked\n" in log, log
    if again:
        assert (seen["a"].state, seen["a"].attempt, seen["b"].state) == (State.SUCCEEDED, 1, State.SUCCEEDED)
        assert "it reached its time limit: it will start again (restart 1 of at most 10)\n" in log
        assert "saved\n" in log
    else:
        assert seen["a"].state is State.FAILED and seen["a"].reason == "reached its time limit"
        assert len(attempts(run)) == 1 and seen["b"].skipped
