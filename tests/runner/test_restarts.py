"""What the batch script makes of words of the scheduler that the real one cannot be made to say on demand."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_launch.runner import secrets_file
from tests.runner.conftest import BatchJob, until

MakeJob = Callable[..., BatchJob]
LOOP = "echo begun; while :; do sleep 0.1; done"
RUNNING = {"JobState": "RUNNING Reason=None", "Restarts": "0", "PreemptTime": "None"}
#: Says what files beside it hold; remembers what it was asked to do.
SCONTROL = """#!/bin/bash
here=${0%/*}
if [[ $1 = show ]]; then
  if [[ -e $here/down ]]; then exit 1; fi
  printf 'JobId=77 JobName=x\\n   UserId=u\\n'
  cat "$here/shown"
else
  echo "scontrol $*" >>"$here/calls"
  if [[ -e $here/refused ]]; then cat "$here/refused" >&2; exit 1; fi
fi
"""
SBATCH = """#!/bin/bash
here=${0%/*}
echo "sbatch $*" >>"$here/calls"
env -0 >"$here/env"
if [[ -e $here/unable ]]; then echo "Batch job submission failed: no" >&2; exit 1; fi
echo 78
"""
SQUEUE = """#!/bin/bash
cat "${0%/*}/queue" 2>/dev/null
"""


class Site:
    """The stand-ins, beside the srun of the other tests."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        for name, text in {
            "scontrol": SCONTROL,
            "sbatch": SBATCH,
            "squeue": SQUEUE,
            "sacct": "#!/bin/sh\nexit 1\n",
        }.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self.says()

    def says(self, **fields: str) -> None:
        lines = "".join(f"   {name}={value}\n" for name, value in {**RUNNING, **fields}.items())
        (self.bin / "shown").write_text(lines)

    def has(self, name: str, text: str = "") -> None:
        (self.bin / name).write_text(text)

    @property
    def calls(self) -> list[str]:
        path = self.bin / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def make(make_job: MakeJob, folder: Path) -> Callable[..., tuple[BatchJob, Site]]:
    def made(text: str, **values: object) -> tuple[BatchJob, Site]:
        known = {"scheduler": "slurm", "language": "shell", "max_restarts": "3", **values}
        job = make_job(["-c", text, "name"], **known)
        return job, Site(folder)

    return made


Make = Callable[..., tuple[BatchJob, Site]]


def ended(job: BatchJob) -> None:
    """Slurm ends what it has put back into the queue."""
    assert job.process is not None
    until(lambda: (job.dir / f"exit-77-{job.restart}.json").exists())
    job.process.terminate()
    job.process.wait(60)


@pytest.mark.slow
def test_an_error_is_requeued_once_and_recorded(make: Make) -> None:
    job, site = make("exit 7", resume_on=["error"], resume_codes=["7"])
    job.start()
    ended(job)
    assert site.calls == ["scontrol requeue 77"]
    assert json.loads((job.dir / "restart-77-0.json").read_text()) == {"schema_version": 1, "cause": "error", "code": 7}
    assert (job.outcome.exit_code, job.outcome.restarting) == (7, "error")


@pytest.mark.parametrize("code", [0, 8])
def test_what_is_no_error_of_the_policy_ends_the_job(make: Make, code: int) -> None:
    job, site = make(f"exit {code}", resume_on=["error", "timeout"], resume_codes=["7"])
    assert job.run() == code
    assert site.calls == [] and job.outcome.restarting == ""


@pytest.mark.parametrize("state", ["COMPLETING Reason=None", "CANCELLED Reason=None"])
def test_a_job_that_is_being_cancelled_is_not_brought_back(make: Make, state: str) -> None:
    """Slurm ends the processes first: to the script it looks like their failure."""
    job, site = make("exit 143", resume_on=["error"])
    site.says(JobState=state)
    assert job.run() == 143
    assert site.calls == []


@pytest.mark.parametrize(
    ("why", "told"), [("", "cancelled"), (" DUE TO TIME LIMIT", "timeout"), (" DUE TO PREEMPTION", "preempted")]
)
def test_what_slurm_writes_into_the_log_is_kept(make: Make, why: str, told: str) -> None:
    job, _ = make(LOOP)
    process = job.start()
    until(lambda: "begun" in job.log)
    with job.log_path.open("a") as log:
        log.write(word(why))
    process.send_signal(signal.SIGTERM)
    until(lambda: "got SIGTERM" in job.log)
    pid = next(int(p.parent.name) for p in Path("/proc").glob("[0-9]*/cmdline") if is_payload(p, job))
    os.kill(pid, signal.SIGKILL)
    process.wait(60)
    assert (job.outcome.cause, job.outcome.word) == ("signal", told)


def test_a_marker_of_a_cancellation_counts_more_than_any_policy(make: Make) -> None:
    job, site = make('touch "$NEMO_LAUNCH_TASK_DIR/cancelled"; exit 7', resume_on=["error"])
    assert job.run() == 7
    assert site.calls == [] and not (job.dir / "restart-77-0.json").exists()


@pytest.mark.parametrize(
    ("shown", "called"),
    [
        ({"JobState": "COMPLETING Reason=TimeLimit"}, ["scontrol requeue 77"]),
        ({"JobState": "COMPLETING Reason=None", "PreemptTime": "1796000000"}, ["scontrol requeue 77"]),
        ({"JobState": "COMPLETING Reason=None", "Restarts": "1"}, []),  # Slurm does it
        ({"JobState": "COMPLETING Reason=None"}, []),  # scancel
    ],
)
def test_a_signal_is_explained_by_the_controller(make: Make, shown: dict[str, str], called: list[str]) -> None:
    job, site = make(LOOP, resume_on=["timeout", "preempted"])
    process = job.start()
    until(lambda: "begun" in job.log)
    site.says(**shown)
    process.send_signal(signal.SIGTERM)
    until(lambda: "got SIGTERM" in job.log)
    pid = next(int(p.parent.name) for p in Path("/proc").glob("[0-9]*/cmdline") if is_payload(p, job))
    until(lambda: site.calls == called)
    os.kill(pid, signal.SIGKILL)
    process.wait(60)
    assert site.calls == called
    assert bool(job.outcome.restarting) == bool(called)


def is_payload(path: Path, job: BatchJob) -> bool:
    try:
        words = path.read_bytes().split(b"\0")
        mark = f"NEMO_LAUNCH_TASK_DIR={job.dir}".encode()
        return LOOP.encode() in words[:3] and mark in (path.parent / "environ").read_bytes()
    except OSError:
        return False


def test_a_follow_up_job_gets_what_this_one_got(make: Make, folder: Path) -> None:
    job, site = make("exit 7", resume_on=["error"], setup="export CHANGED=1 PATH=/nowhere:$PATH")
    site.has("refused", "Requested operation is presently disabled for job 77\n")
    site.has(
        "queue", "90 afterok:77(unfulfilled)\n91 afterany:5(unfulfilled),afterok:77:8(unfulfilled)\n92 singleton\n"
    )
    assert job.run(HF_TOKEN="s3cr3t", SLURM_MEM_PER_CPU="1", SLURM_CONF="/etc/c", ODD="two\nlines ") == 7
    assert site.calls == [
        "scontrol requeue 77",
        f"sbatch --parsable --dependency=afterany:77 {job.dir}/job.sh",
        "scontrol update JobId=90 Dependency=afterok:78",
        "scontrol update JobId=91 Dependency=afterany:5,afterok:78:8",
    ]
    env = dict(entry.split("=", 1) for entry in (site.bin / "env").read_text().split("\0") if entry)
    assert (env["HF_TOKEN"], env["ODD"], env["SLURM_CONF"]) == ("s3cr3t", "two\nlines ", "/etc/c")
    assert not {"SLURM_MEM_PER_CPU", "SLURM_JOB_ID", "CHANGED", "NEMO_LAUNCH_TASK"} & set(env)
    assert (job.dir / "claim").readlink() == Path("job-78")
    follow = json.loads((job.dir / "follows-78.json").read_text())
    assert (follow["job_id"], follow["attempt"], follow["cause"]) == ("77", 1, "error")


def test_a_follow_up_job_goes_on_counting(make: Make) -> None:
    job, _ = make('exit "$NEMO_LAUNCH_ATTEMPT"', resume_on=["error"], max_restarts="2")
    (job.dir / "claim").symlink_to("job-76")
    (job.dir / "follows-77.json").write_text('{"schema_version": 1, "job_id": "76", "attempt": 2, "cause": "error"}')
    assert job.run() == 2
    assert "attempt 3 of at most 3" in job.log and "the most (max_restarts)" in job.record["message"]
    assert (job.dir / "claim").readlink() == Path("job-77")
    assert (job.outcome.before, job.outcome.attempt) == (2, 0)


def test_where_nothing_works_the_failure_stays_and_says_so(make: Make) -> None:
    job, site = make("exit 7", resume_on=["error"])
    site.has("refused", "Access/permission denied\n")
    site.has("unable")
    assert job.run() == 7
    assert "neither scontrol requeue nor sbatch works on node-0" in job.record["message"]
    assert job.outcome.restarting == ""


# -- an attempt asks why it is here -------------------------------------------------------------------------------


def word(due: str) -> str:
    return f"slurmstepd-node-0: error: *** JOB 77 ON node-0 CANCELLED AT 2026-01-01T00:00:00{due} ***\n"


@pytest.mark.parametrize(
    ("policy", "log", "record", "code"),
    [
        (["preempted"], word(" DUE TO PREEMPTION"), "signal", 0),
        (["timeout"], word(" DUE TO PREEMPTION"), "signal", 1),
        (["node_fail"], word(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"), "signal", 0),
        (["preempted"], word(" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"), "signal", 1),
        (["node_fail"], "", "", 0),  # nobody was left to write
        (["preempted"], "", "", 1),
        ([], word(" DUE TO JOB REQUEUE"), "signal", 0),
        ([], "", "ended", 0),
        ([], "", "signal", 1),
        (["node_fail"], "", "signal", 0),
        (["preempted"], word(""), "signal", 143),  # scancel
    ],
)
def test_an_attempt_asks_why_it_is_here(make: Make, policy: list[str], log: str, record: str, code: int) -> None:
    job, _ = make("exit 0", resume_on=policy)
    job.log_path.write_text(f"output\n{log}more output\n")
    (job.dir / "started-77-0.json").write_text('{"schema_version": 1, "job_id": "77", "started": 100}')
    if record:
        (job.dir / "exit-77-0.json").write_text(f'{{"exit_code": 143, "cause": "{record}"}}')
    job.restart = 1
    assert job.run(SLURM_RESTART_COUNT="1") == code
    assert job.record["cause"] == {0: "ended", 1: "policy", 143: "cancelled"}[code]
    assert (job.dir / "cancelled").exists() == (code == 143)


def test_a_word_about_an_older_attempt_does_not_count(make: Make) -> None:
    job, _ = make("exit 0", resume_on=["preempted"])
    job.log_path.write_text(word(" DUE TO PREEMPTION") + "nemo_launch: attempt 2 of at most 4, because …\n")
    job.restart = 2
    assert job.run(SLURM_RESTART_COUNT="2") == 1  # the second attempt left no word: its node failed
    assert "its node failed" in job.record["message"]


def test_accounting_is_asked_where_nobody_else_knows(make: Make) -> None:
    job, site = make("exit 0", resume_on=["preempted"])
    (job.dir / "started-77-0.json").write_text('{"started": 100}')
    site.has("sacct", "#!/bin/sh\nprintf 'FAILED|50\\nPREEMPTED|150\\nRUNNING|Unknown\\n'\n")
    job.restart = 1
    assert job.run(SLURM_RESTART_COUNT="1") == 0
    assert "because it was preempted" in job.log


def test_no_more_restarts_than_asked_for(make: Make) -> None:
    job, _ = make("exit 0", resume_on=["preempted"], max_restarts="1")
    job.log_path.write_text(word(" DUE TO PREEMPTION"))
    job.restart = 2
    assert job.run(SLURM_RESTART_COUNT="2") == 1
    assert "1 times, which is the most (max_restarts)" in job.record["message"]


def test_the_latest_checkpoint_is_named(make: Make) -> None:
    job, _ = make('echo "from $NEMO_LAUNCH_RESTORE_FROM"', resume_on=["preempted"])
    job.log_path.write_text(word(" DUE TO PREEMPTION"))
    (job.dir / "checkpoints" / "step-7").mkdir(parents=True)
    (job.dir / "checkpoints" / "latest").symlink_to("step-7")
    assert job.run(SLURM_RESTART_COUNT="1", NEMO_LAUNCH_RESTORE_FROM="/another/run") == 0
    assert f"from {job.dir}/checkpoints/latest\n" in job.log


# -- secrets ------------------------------------------------------------------------------------------------------


def test_secrets_stay_for_a_restart_and_go_at_the_end(make: Make, folder: Path) -> None:
    secrets = folder / "secrets"
    secrets.write_bytes(secrets_file({"TOKEN": "value"}))
    job, _ = make('[ "$TOKEN" = value ] || exit 9; [ "$NEMO_LAUNCH_ATTEMPT" = 1 ]', secrets_file=str(secrets),
                  resume_on=["error"])  # fmt: skip
    job.start()
    ended(job)
    assert secrets.exists()
    assert job.run(SLURM_RESTART_COUNT="1") == 0
    assert not secrets.exists()


def test_secrets_stay_where_slurm_starts_the_job_again(make: Make, folder: Path) -> None:
    (folder / "secrets").write_bytes(secrets_file({"TOKEN": "value"}))
    text = f'trap "exit 0" TERM; {LOOP}'
    job, site = make(text, secrets_file=str(folder / "secrets"), resume_on=["preempted"])
    process = job.start()
    until(lambda: "begun" in job.log)
    site.says(JobState="COMPLETING Reason=None", Restarts="1")
    os.killpg(process.pid, signal.SIGTERM)  # Slurm signals every process
    process.wait(60)
    assert (folder / "secrets").exists()
