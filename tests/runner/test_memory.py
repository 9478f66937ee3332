"""Whether a batch script knows that its memory was not enough. The lines are those of real clusters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runner.conftest import BatchJob

MakeJob = Callable[..., BatchJob]
#: Slurm 22.05, cgroup v1; then a newer one, cgroup v2.
LINES = [
    "srun: error: a3m-1: task 0: Out Of Memory\n"
    "slurmstepd-a3m-1: error: Detected 1 oom-kill event(s) in StepId=77.0. Some of your processes may have been killed "
    "by the cgroup out-of-memory handler.",
    "srun: error: a3m-1: tasks 0-1,3: Out Of Memory",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
]


@pytest.fixture
def make(make_job: MakeJob) -> Callable[..., BatchJob]:
    """A job whose step says this on its way to that exit code."""

    def made(said: str, code: int) -> BatchJob:
        text = f"cat <<'END' >&2\n{said}\nEND\nexit {code}"
        return make_job(["-c", text, "name"], scheduler="slurm", language="shell")

    return made


@pytest.mark.parametrize("said", LINES)
@pytest.mark.parametrize("code", [137, 1])  # killed itself, or a process that it needs
def test_memory_that_was_not_enough_is_the_cause(make: Callable[..., BatchJob], said: str, code: int) -> None:
    job = make(said, code)
    assert job.run(SLURM_MEM_PER_NODE="100") == code
    where = " on a3m-1" if "a3m-1" in said else ""
    text = f"ran out of memory{where}: it may use 100 MB on each node; ask for more (mem)"
    assert (job.outcome.cause, job.outcome.reason) == ("memory", text)
    assert f"nemo_launch: {text}\n" in job.log


@pytest.mark.parametrize(
    "said",
    [
        LINES[2].replace("77", "7"),  # another job's
        f"the log says: {LINES[1]}",
        "Killed",
    ],
)
def test_a_kill_alone_is_not_memory(make: Callable[..., BatchJob], said: str) -> None:
    job = make(said, 137)
    assert job.run() == 137
    assert job.outcome.cause == "ended"


def test_what_an_earlier_attempt_said_does_not_count(make: Callable[..., BatchJob]) -> None:
    job = make("no", 7)
    job.log_path.write_text(
        f"{LINES[0]}\nslurmstepd-a3m-1: error: *** JOB 77 ON a3m-1 CANCELLED AT now DUE TO JOB REQUEUE ***\n"
    )
    assert job.run(SLURM_RESTART_COUNT="1") == 7
    job.restart = 1
    assert job.outcome.cause == "ended"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"SLURM_MEM_PER_NODE": "100"}, "it may use 100 MB on each node; ask for more (mem)"),
        (
            {"SLURM_MEM_PER_CPU": "8000", "SLURM_CPUS_ON_NODE": "4"},
            "it may use 8000 MB for each of 4 processors; ask for more (mem)",
        ),
        ({"SLURM_MEM_PER_GPU": "64000"}, "it may use 64000 MB for each GPU; ask for more (mem_per_gpu)"),
        (  # --mem 0
            {},
            "all that its nodes have is not enough; use more nodes, or fewer processes on each",
        ),
    ],
)
def test_how_much_it_may_use_is_written_before_anything_can_happen(
    make: Callable[..., BatchJob], env: dict[str, str], words: str
) -> None:
    job = make("no", 0)
    assert job.run(**env) == 0
    assert job.outcome.memory == words
