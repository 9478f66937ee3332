"""Arrays and heterogeneous jobs on the real cluster, submitted by hand: their handle tells of each part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from nemo_launch.executors.base import Handle, Job, Observation, State
from nemo_launch.executors.slurm import poll as polling
from tests.conformance.site import Site
from tests.executors.slurm.conftest import Counting, ask

CASE_26 = """\
#!/bin/bash
case $SLURM_ARRAY_TASK_ID in
0) exit 0 ;;
1) exit 3 ;;
esac
while [ ! -e go ]; do sleep 0.1; done
"""


class ByHand:
    """A job of a script of one's own, and what status says of it."""

    def __init__(self, site: Site, transport: Counting, script: str, *options: str) -> None:
        (plan,) = site.prepare(site.task("by-hand", "#!/bin/sh\n")).plans
        self.paths, self.transport = plan.paths, transport
        os.makedirs(self.paths.job_dir, exist_ok=True)
        Path(self.paths.script).write_text(script)
        self.begun = time.time()
        where = ["--chdir", str(site.folder), "-o", "/dev/null", "--mem=10"]
        # Options of further components stand behind a colon, the script at the very end.
        self.id = ask("sbatch", "--parsable", *where, *options, self.paths.script)

    def job(self, index: int | None = None, part: int | None = None) -> Job:
        name = f"by-hand-{index}-{part}"
        paths = self.paths._replace(dir=f"{self.paths.dir}-{name}")  # of the launcher's own record
        handle = Handle(self.id, array_index=index, het_part=part)
        return Job(name, paths, handle, intended=self.begun, submitted=self.begun)

    def poll(self, *jobs: Job) -> list[Observation]:
        Path(self.paths.seen).unlink(missing_ok=True)  # of another handle of the same job
        seen = polling.poll(self.transport, jobs)
        return [seen[job.key] for job in jobs]

    def until(self, job: Job, true: Callable[[Observation], bool]) -> Observation:
        (seen,) = self.poll(job)
        deadline = time.monotonic() + 90
        while not true(seen):
            assert time.monotonic() < deadline, seen
            time.sleep(0.5)
            seen = polling.poll(self.transport, [job])[job.key]
        return seen


def states(seen: Observation) -> list[str]:
    return [str(one.state) for one in seen.parts.values()]


def test_case_26_an_array(site: Site, transport: Counting) -> None:
    array = ByHand(site, transport, CASE_26, "--array=0-9%2")
    want = ["SUCCEEDED", "FAILED", "RUNNING", "RUNNING", *["PENDING"] * 6]
    seen = array.until(array.job(), lambda seen: states(seen) == want)
    assert list(seen.parts) == [f"{array.id}_{n}" for n in range(10)]
    assert (seen.state, seen.reason) == (State.RUNNING, "1 SUCCEEDED, 1 FAILED, 2 RUNNING, 6 PENDING")
    array.until(array.job(), lambda seen: seen.parts[f"{array.id}_1"].exit_code == 3)  # accounting may lag behind
    transport.programs()
    singles = array.poll(*(array.job(n) for n in range(10)))
    assert [str(one.state) for one in singles] == want
    assert "of its array" in singles[9].reason
    called = transport.programs()
    assert called.count("squeue") == 1 and called.count("sacct") <= 1
    (site.folder / "go").touch()
    seen = array.until(array.job(), lambda seen: seen.state.final and seen.exit_code is not None)
    assert (seen.state, seen.exit_code) == (State.FAILED, 3)
    assert states(seen) == ["SUCCEEDED", "FAILED", *["SUCCEEDED"] * 8]


def test_a_cancelled_array_whose_indices_never_started(site: Site, transport: Counting) -> None:
    array = ByHand(site, transport, CASE_26, "--array=0-20:2", "--hold")
    (seen,) = array.poll(array.job())
    assert states(seen) == ["PENDING"] * 11 and "held by its user" in seen.reason
    ask("scancel", array.id)
    seen = array.until(array.job(), lambda seen: seen.state.final)
    assert set(states(seen)) == {"CANCELLED"}
    single = array.until(array.job(4), lambda seen: seen.state.final)
    assert single.state is State.CANCELLED


def test_case_27_a_heterogeneous_job(site: Site, transport: Counting) -> None:
    script = "#!/bin/bash\n#SBATCH -n1 -p a3m\n#SBATCH hetjob\n#SBATCH -n1 -p a3u --mem=10\n"
    het = ByHand(site, transport, f"{script}while [ ! -e go ]; do sleep 0.1; done\nsrun --het-group=1 sh -c 'exit 3'\n")
    seen = het.until(het.job(), lambda seen: states(seen) == ["RUNNING", "RUNNING"])
    assert list(seen.parts) == [f"{het.id}+0", f"{het.id}+1"]
    assert {one.nodes[:3] for one in seen.parts.values()} == {"a3m", "a3u"}
    assert seen.nodes.count(",") == 1
    (single,) = het.poll(het.job(part=1))
    assert (single.state, single.nodes) == (State.RUNNING, seen.parts[f"{het.id}+1"].nodes)
    (site.folder / "go").touch()
    seen = het.until(het.job(), lambda seen: seen.state.final and seen.exit_code is not None)
    assert (seen.state, seen.exit_code, states(seen)) == (State.FAILED, 3, ["FAILED", "FAILED"])


def test_one_component_that_is_cancelled_alone(site: Site, transport: Counting) -> None:
    script = "#!/bin/bash\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1 --mem=10\n"
    het = ByHand(site, transport, f"{script}while [ ! -e go ]; do sleep 0.1; done\n")
    het.until(het.job(), lambda seen: states(seen) == ["RUNNING", "RUNNING"])
    ask("scancel", f"{het.id}+1")
    seen = het.until(het.job(), lambda seen: states(seen) == ["RUNNING", "CANCELLED"])
    assert seen.state is State.RUNNING
    (site.folder / "go").touch()
    seen = het.until(het.job(), lambda seen: seen.state.final)
    assert (seen.state, states(seen)) == (State.CANCELLED, ["SUCCEEDED", "CANCELLED"])
