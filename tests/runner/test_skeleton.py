"""The batch script on one machine: records, claim, signals, port, environment. The scheduler's part is played here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_launch.runner import secrets_file
from tests.runner.conftest import BatchJob, until

MakeJob = Callable[..., BatchJob]
Write = Callable[..., Path]
SLEEP = 'echo begun; trap "echo saved; exit 0" TERM; while :; do sleep 0.1; done'


def shell(make_job: MakeJob, text: str, **values: object) -> BatchJob:
    return make_job(["-c", text, "name"], language="shell", **values)


def test_the_exit_code_of_the_program_is_the_jobs(make_job: MakeJob) -> None:
    job = shell(make_job, "echo out; echo err >&2; exit 7")
    assert job.run() == 7
    assert job.log == "out\nerr\n"
    assert job.record["exit_code"] == 7
    assert (job.outcome.exit_code, job.outcome.cause, job.outcome.owner) == (7, "ended", "77")
    assert job.outcome.failure and str(job.outcome.failure).endswith("failed first: exit 7")


def test_success_leaves_records_of_start_and_end(make_job: MakeJob) -> None:
    job = shell(make_job, "exit 0")
    before = int(time.time())
    assert job.run() == 0
    outcome = job.outcome
    assert (outcome.exit_code, outcome.failure, outcome.reason) == (0, None, "")
    assert outcome.started and outcome.ended and before <= outcome.started <= outcome.ended <= time.time()
    assert outcome.nodes == os.uname().nodename.split(".")[0]


def test_what_the_program_is_told(make_job: MakeJob, folder: Path) -> None:
    job = shell(make_job, "env -0 > env; pwd > cwd", pythonpath=["/snap/b", "/snap/a"])
    job.run(PYTHONPATH="/mine", UNRELATED="two\nlines ")
    env = dict(entry.split("=", 1) for entry in (folder / "env").read_text().split("\0") if entry)
    assert (folder / "cwd").read_text().rstrip("\n") == str(folder)
    assert env["PYTHONPATH"] == "/snap/b:/snap/a:/mine"
    assert env["NEMO_LAUNCH_TASK_DIR"] == str(job.dir)
    assert env["NEMO_LAUNCH_CHECKPOINT_REQUESTED"] == f"{job.dir}/checkpoint-requested"
    assert (env["NEMO_LAUNCH_EXPERIMENT"], env["NEMO_LAUNCH_TASK"]) == ("demo_1", "task")
    assert (env["NEMO_LAUNCH_JOB_ID"], env["NEMO_LAUNCH_ATTEMPT"]) == ("77", "0")
    assert (env["MASTER_PORT"], env["WORLD_SIZE"], env["PYTHONUNBUFFERED"]) == ("13742", "1", "1")
    assert env["MASTER_ADDR"] == "localhost"
    assert env["UNRELATED"] == "two\nlines "
    assert not [name for name in env if name.startswith("nl_")]


def test_what_the_user_sets_wins(make_job: MakeJob, folder: Path) -> None:
    job = shell(make_job, "env -0 > env")
    mine = {"MASTER_ADDR": "me", "MASTER_PORT": "5", "WORLD_SIZE": "9", "PYTHONUNBUFFERED": ""}
    job.run(**mine)
    env = dict(entry.split("=", 1) for entry in (folder / "env").read_text().split("\0") if entry)
    assert {name: env[name] for name in mine} == mine


# -- claim --------------------------------------------------------------------------------------------------------


def test_of_two_jobs_for_one_submission_one_runs(make_job: MakeJob, folder: Path) -> None:
    job = shell(make_job, "echo ran >> ran; sleep 0.5")
    processes = [job.start(NEMO_LAUNCH_JOB_ID=number) for number in ("77", "78", "79")]
    codes = [process.wait(60) for process in processes]
    assert (folder / "ran").read_text() == "ran\n"
    assert sorted(codes) == [0, 75, 75]
    owner = os.readlink(job.dir / "claim").removeprefix("job-")
    for number in {"77", "78", "79"} - {owner}:
        record = json.loads((job.dir / f"exit-{number}-0.json").read_text())
        assert (record["cause"], record["exit_code"]) == ("duplicate", 75)
        assert f"duplicate of {owner}" in record["message"] and f"duplicate of {owner}" in job.log


def test_a_claim_of_its_own_is_no_obstacle(make_job: MakeJob) -> None:
    job = shell(make_job, "exit 0")
    os.symlink("job-77", job.dir / "claim")
    assert job.run() == 0


def test_a_cancelled_job_does_not_start(make_job: MakeJob, folder: Path) -> None:
    job = shell(make_job, "touch ran")
    (job.dir / "cancelled").touch()
    assert job.run() == 143
    assert not (folder / "ran").exists()
    assert job.outcome.cause == "cancelled"


def test_a_folder_that_cannot_be_written_is_named(make_job: MakeJob) -> None:
    job = shell(make_job, "exit 0", job_dir="/nonexistent/job")
    assert job.run() == 73
    assert "/nonexistent/job" in job.log and "job_dir" in job.log


# -- what stands in the way ---------------------------------------------------------------------------------------


def test_a_missing_work_dir_is_named(make_job: MakeJob) -> None:
    job = shell(make_job, "exit 0", work_dir="/nonexistent")
    assert job.run() == 78
    assert job.outcome.cause == "workdir"
    assert "/nonexistent" in job.outcome.reason and os.uname().nodename.split(".")[0] in job.outcome.reason
    assert job.outcome.reason in job.log


def test_a_missing_python_is_named(make_job: MakeJob) -> None:
    job = make_job(["x.py"], python='/opt/no "such"\tpython')
    assert job.run() == 127
    assert job.outcome.cause == "python" and '/opt/no "such"\tpython' in job.outcome.reason
    assert job.outcome.reason in job.log


def test_a_python_in_a_container_is_not_looked_for_outside(make_job: MakeJob) -> None:
    job = make_job(["x.py"], python="python-of-the-image", scheduler="slurm", srun_args=["--container-image=x.sqsh"])
    assert job.run() != 0
    assert job.outcome.cause != "python"


def test_setup_runs_before_and_its_exports_stay(make_job: MakeJob) -> None:
    job = shell(make_job, 'echo "$A"', setup="set -eu\nA='x y'; export A\nf() { :; }")
    assert job.run() == 0
    assert job.log == "x y\n"


@pytest.mark.parametrize(("setup", "code"), [("false", 1), ("(exit 9)", 9), ("exit 4", 4), ("exit 0", 1)])
def test_a_failing_setup_ends_the_job(make_job: MakeJob, setup: str, code: int) -> None:
    job = shell(make_job, "echo ran", setup=setup)
    assert job.run() == code
    assert job.outcome.cause == "setup" and "setup" in job.outcome.reason
    assert "ran\n" not in job.log


def test_traps_and_options_of_setup_do_not_stay(make_job: MakeJob) -> None:
    job = shell(make_job, SLEEP, setup="trap 'exit 55' TERM EXIT; set -eu; IFS=:")
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert job.outcome.cause == "signal"


# -- secrets ------------------------------------------------------------------------------------------------------


def test_secrets_come_from_a_file_that_goes_away(make_job: MakeJob, folder: Path) -> None:
    value = "s3cr3t-$&'\n\"x "
    (folder / "secrets").write_bytes(secrets_file({"TOKEN": value, "EMPTY": ""}))
    job = shell(
        make_job, 'printf "%s" "$TOKEN" > got; test "${EMPTY-unset}" = ""', secrets_file=str(folder / "secrets")
    )
    assert job.run() == 0
    assert (folder / "got").read_text() == value
    assert not (folder / "secrets").exists()
    kept = b"".join(path.read_bytes() for path in job.dir.rglob("*") if path.is_file())
    assert b"s3cr3t" not in kept


def test_lost_secrets_are_said(make_job: MakeJob) -> None:
    job = shell(make_job, "exit 0", secrets_file="/nonexistent/secrets")
    assert job.run() == 78
    assert job.outcome.cause == "secrets"


# -- signals ------------------------------------------------------------------------------------------------------


def test_term_is_passed_on_once_and_the_end_is_recorded(make_job: MakeJob) -> None:
    job = shell(
        make_job, 'n=0; trap "echo got; n=1" TERM; echo begun; until [ $n = 1 ]; do sleep 0.05; done; sleep 0.5; exit 5'
    )
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 5
    assert job.log.count("got\n") == 1
    assert (job.outcome.cause, job.outcome.signal, job.outcome.exit_code) == ("signal", "SIGTERM", 5)
    assert job.outcome.failure is None  # it was told to end


def test_a_program_that_saves_and_ends_well_on_term_was_ended_all_the_same(make_job: MakeJob) -> None:
    job = shell(make_job, SLEEP)
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143  # what depends on it must not start
    assert "saved" in job.log and (job.outcome.cause, job.outcome.exit_code) == ("signal", 0)


def test_a_step_that_hears_of_the_end_first_is_no_success(make_job: MakeJob, folder: Path) -> None:
    job = shell(make_job, SLEEP, scheduler="slurm")
    (folder / "bin" / "srun").write_text('#!/bin/bash\nwhile [[ $1 = --* ]]; do shift; done\nset -m\n"$@" &\n'
                                         'echo $! >pid\nwait\n')  # fmt: skip
    process = job.start()
    until(lambda: "begun" in job.log)
    os.killpg(int((folder / "pid").read_text()), signal.SIGTERM)
    until(lambda: "saved" in job.log)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert (job.outcome.cause, job.outcome.signal) == ("signal", "SIGTERM")


def test_cancelling_is_the_cause_when_the_marker_is_there(make_job: MakeJob) -> None:
    job = shell(make_job, "echo begun; sleep 30")
    process = job.start()
    until(lambda: "begun" in job.log)
    (job.dir / "cancelled").touch()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert job.outcome.cause == "cancelled"


def test_the_margin_signal_asks_for_a_checkpoint_and_nothing_else(make_job: MakeJob) -> None:
    text = 'echo begun; until [ -e "$NEMO_LAUNCH_CHECKPOINT_REQUESTED" ]; do sleep 0.05; done; sleep 0.3; echo saved'
    job = shell(make_job, text)
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert "checkpoint requested" in job.log and job.log.endswith("saved\n")
    assert job.outcome.cause == "ended"


def test_an_old_checkpoint_request_is_not_this_runs(make_job: MakeJob) -> None:
    job = shell(make_job, 'test ! -e "$NEMO_LAUNCH_CHECKPOINT_REQUESTED"')
    (job.dir / "checkpoint-requested").touch()
    assert job.run() == 0


def test_on_slurm_the_chosen_signal_goes_to_srun(make_job: MakeJob) -> None:
    text = 'trap "echo got; exit 0" USR2; echo begun; while :; do sleep 0.05; done'
    job = shell(make_job, text, scheduler="slurm", signal="USR2")
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert "got\n" in job.log


def test_a_step_that_was_killed_is_no_success_even_if_srun_says_so(make_job: MakeJob, folder: Path) -> None:
    job = shell(make_job, "exit 0", scheduler="slurm")
    (folder / "bin" / "srun").write_text("#!/bin/sh\necho begun; sleep 3; exit 0\n")  # seen on 22.05 after scancel
    process = job.start()
    until(lambda: "begun" in job.log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert job.outcome.exit_code == 143


# -- Slurm --------------------------------------------------------------------------------------------------------


def test_the_first_node_is_the_master(make_job: MakeJob) -> None:
    job = shell(make_job, "echo $MASTER_ADDR $WORLD_SIZE", scheduler="slurm", nodes=3, ntasks_per_node=2)
    assert job.run() == 0
    assert job.log == "node-0 6\n"


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({"launcher": "srun"}, "--nodes=3 --ntasks=6 --ntasks-per-node=2 --cpus-per-task=4"),
        ({"launcher": "srun", "cpus_per_task": 3}, "--ntasks=6 --ntasks-per-node=2 --cpus-per-task=3"),
        ({"launcher": "none"}, "--nodes=1 --relative=0 --ntasks=1 --cpus-per-task=8"),
        ({"launcher": "torchrun"}, "--nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=8"),
        ({"gpus_per_node": 8, "srun_args": ["--mpi=pmix"]}, "--gpus-per-node=8 --mpi=pmix"),
    ],
)
def test_srun_is_told_everything(make_job: MakeJob, folder: Path, values: dict[str, object], options: str) -> None:
    job = shell(make_job, "exit 0", scheduler="slurm", nodes=3, ntasks_per_node=2, **values)
    (folder / "bin" / "srun").write_text('#!/bin/sh\nprintf "%s " "$@"; env | grep -c SLURM_CPUS_PER_TASK; exit 0\n')
    assert job.run(SLURM_CPUS_PER_TASK="1") == 0
    assert options in job.log and "--export=ALL --kill-on-bad-exit=1 --wait=0" in job.log
    assert job.log.rstrip().endswith(" 0")


def test_a_restarted_job_is_an_attempt_of_its_own(make_job: MakeJob) -> None:
    job = shell(make_job, 'exit "$NEMO_LAUNCH_ATTEMPT"', scheduler="slurm")
    assert job.run() == 0
    assert job.run(SLURM_RESTART_COUNT="1") == 1
    assert (job.outcome.attempt, job.outcome.exit_code) == (1, 1)
    assert json.loads((job.dir / "exit-77-0.json").read_text())["exit_code"] == 0


def test_ranks_of_srun_know_their_place(make_job: MakeJob) -> None:
    job = shell(make_job, "echo $RANK $LOCAL_RANK $WORLD_SIZE", scheduler="slurm", launcher="srun", ntasks_per_node=2)
    assert job.run() == 0
    assert sorted(job.log.splitlines()) == ["[node-0:0] 0 0 2", "[node-0:1] 1 1 2"]


# -- the port -----------------------------------------------------------------------------------------------------

PORT = 23742


@pytest.mark.skipif(not shutil.which("flock"), reason="flock is not installed")
def test_jobs_that_start_together_get_different_ports(make_job: MakeJob, folder: Path) -> None:
    text = "echo $MASTER_PORT > port-$N-$RANK; until [ -e go ]; do sleep 0.1; done"
    jobs = [
        shell(make_job, text, name=str(n), scheduler="slurm", launcher="srun", ntasks_per_node=2, master_port=PORT)
        for n in range(8)
    ]
    processes = [job.start(N=str(n)) for n, job in enumerate(jobs)]
    until(lambda: len(list(folder.glob("port-*"))) == 16)
    (folder / "go").touch()
    assert [process.wait(90) for process in processes] == [0] * 8
    assert len({(folder / f"port-{n}-0").read_text() for n in range(8)}) == 8
    moved = [job.log for job in jobs if f"port {PORT} is taken on node-0: using" in job.log]
    assert len(moved) == 7
    again = shell(
        make_job,
        "echo $MASTER_PORT",
        name="again",
        scheduler="slurm",
        launcher="srun",
        ntasks_per_node=2,
        master_port=PORT,
    )
    again.run()
    assert f"[node-0:0] {PORT}\n" in again.log  # the leases ended with their jobs


def test_a_port_that_something_listens_on_is_passed_over(make_job: MakeJob) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        job = shell(
            make_job, "echo $MASTER_PORT", scheduler="slurm", launcher="srun", ntasks_per_node=2, master_port=port
        )
        assert job.run() == 0
    (used,) = re.findall(rf"port {port} is taken on node-0: using (\d+)\n", job.log)
    assert int(used) > port  # mostly the next one; others of this machine may have that
    assert f"[node-0:1] {used}\n" in job.log


def test_no_lease_without_flock(make_job: MakeJob, folder: Path) -> None:
    tools = folder / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "uname",
        "ln",
        "mv",
        "rm",
        "mkdir",
        "grep",
        "cat",
        "readlink",
        "mkfifo",
        "tee",
        "sleep",
        "date",
    ):
        os.symlink(str(shutil.which(name)), tools / name)
    job = shell(
        make_job, "echo $MASTER_PORT", scheduler="slurm", launcher="srun", ntasks_per_node=2, master_port=PORT + 50
    )
    assert job.run(PATH=f"{folder / 'bin'}:{tools}") == 0
    assert f"[node-0:0] {PORT + 50}\n" in job.log


def test_the_batch_script_needs_no_home_and_no_path_of_ours(make_job: MakeJob) -> None:
    job = shell(make_job, "exit 3")
    done = subprocess.run(["bash", job.dir / "job.sh"], env={"PATH": "/usr/bin:/bin", "NEMO_LAUNCH_JOB_ID": "77"})
    assert done.returncode == 3
