"""ft_launcher, the real one of nvidia-resiliency-ext, on the real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_launch.executors.base import State
from tests.conformance.site import Site
from tests.lab.ft import REAL, why_not_real

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not_real()), reason=why_not_real())]
#: Rank 1 dies in each of its first DIE starts; what a rank was told is printed.
DIES = """
import os, sys, time
from torch import distributed

rank, tries = int(os.environ["RANK"]), int(sys.argv[1])
distributed.init_process_group("gloo")
distributed.barrier()
starts = len([name for name in os.listdir(".") if name.startswith(f"start-{rank}-")])
open(f"start-{rank}-{starts}", "w").close()
print("start", starts, "from", os.environ.get("NEMO_LAUNCH_RESTORE_FROM"), flush=True)
folder = os.path.join(os.environ["NEMO_LAUNCH_TASK_DIR"], "checkpoints", "latest")
distributed.barrier()
if rank == 0:
    os.makedirs(folder, exist_ok=True)
distributed.barrier()
if rank == 1 and starts < tries:
    {}[f"broken {starts}"]
distributed.barrier()
print("done", starts, distributed.get_world_size(), flush=True)
"""
USED: dict[str, Any] = {
    "launcher": "ft",
    "env_vars": {"PYTHONPATH": str(REAL)},
    "ft_args": ["--ft-log-level=WARNING", "--monitor-interval=0.2", "--ft-workload-check-interval=0.5"],
}


def test_a_rank_that_dies_is_started_again_and_the_job_succeeds(site: Site) -> None:
    run = site.launch(site.task("demo", DIES, "1", python=True), nodes=2, ft_restart_policy="any-failed", **USED)
    seen = run.wait(300)["demo"]
    log = run.log("demo")
    assert (seen.state, seen.exit_code) == (State.SUCCEEDED, 0), log
    assert seen.failure is None
    assert seen.reason == ""
    assert log.count("] done 1 2\n") == 2
    assert log.count("] start 0 from None\n") == 2
    latest = Path(run.where("demo").dir, "checkpoints", "latest")
    assert log.count(f"] start 1 from {latest}\n") == 2
    assert "ft_launcher has started the ranks again (restart 1)" in log
    (job,) = run.jobs()
    ranks = Path(run.where("demo").dir, f"ranks-{job.handle}-0")
    for rank in (0, 1):  # one log for all starts
        text = (ranks / f"rank-{rank}.log").read_text()
        assert "start 0" in text
        assert "done 1" in text


def test_what_goes_on_failing_fails_with_the_last_failure(site: Site) -> None:
    run = site.launch(site.task("demo", DIES, "9", python=True), nodes=2, ft_max_restarts=1, **USED)
    seen = run.wait(300)["demo"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 1), run.logs()
    assert seen.failure and (seen.failure.rank, seen.failure.exception) == (1, "KeyError: 'broken 1'")
    assert len(list(site.folder.glob("start-1-*"))) == 2


HANGS = """
import os, sys, time
import nvidia_resiliency_ext.fault_tolerance as fault_tolerance

client = fault_tolerance.RankMonitorClient()
client.init_workload_monitoring()
client.send_heartbeat()
if os.path.exists("hung"):
    print("done", flush=True)
    client.shutdown_workload_monitoring()
    sys.exit(0)
open("hung", "w").close()
while True: time.sleep(1)
"""


def test_a_rank_without_heartbeats_is_started_again(site: Site) -> None:
    run = site.launch(
        site.task("demo", HANGS, python=True),
        ft_initial_rank_heartbeat_timeout=60.0,
        ft_rank_heartbeat_timeout=2.5,
        **USED,
    )
    seen = run.wait(300)["demo"]
    assert seen.state is State.SUCCEEDED, run.logs()
    assert "done\n" in run.log("demo")
