"""The faults are the ones they claim to be: tried on the real cluster and on real file systems."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import (
    Rules,
    WrappedCommands,
    after,
    exists,
    fill,
    kill_at,
    path_without,
    slow_sbatch,
    small_disk,
    unwritable,
)
from tests.lab import Lab, LabUser

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
Call = Callable[..., subprocess.CompletedProcess[str]]
PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def commands(workspace: Path, user_python: Path, slurm: Lab) -> WrappedCommands:
    return slow_sbatch(workspace, user_python)


@pytest.fixture
def call(commands: WrappedCommands, slurm: Lab) -> Call:
    """Calls a command as a launcher with that PATH would."""
    return lambda *argv: slurm.run_as_user(argv, env=commands.env(slurm.env()), cwd=commands.directory)


SUBMIT = ("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true")


def test_a_stand_in_calls_the_real_command_and_counts(commands: WrappedCommands, call: Call, slurm: Lab) -> None:
    odd = "a 'b'\n$c"
    job = call(*SUBMIT, "--comment", odd).stdout
    assert slurm.slurm("squeue", "-h", "-t", "all", "-o", "%A", "-j", job.strip()) == job.strip()
    call("squeue", "-h")
    (submission,) = commands.calls("sbatch")
    assert submission.argv == [*SUBMIT[1:], "--comment", odd]
    assert (submission.status, submission.stdout) == (0, job)
    assert submission.returned is not None and submission.entered < submission.returned
    assert len(commands.calls("squeue")) == 1
    assert commands.calls("sacct") == []


def test_a_real_failure_passes_through(commands: WrappedCommands, call: Call) -> None:
    done = call("sbatch", "-p", "nowhere", "--wrap", "true")
    assert done.returncode == 1
    assert "invalid partition specified" in done.stderr
    assert commands.calls("sbatch")[0].status == 1


def test_input_reaches_the_real_command(commands: WrappedCommands, slurm: Lab) -> None:
    script = "#!/bin/sh\n#SBATCH -o /dev/null --job-name from-input\n"
    argv, env = ["sbatch", "--parsable"], commands.env(slurm.env())
    job = slurm.run_as_user(argv, env=env, cwd=commands.directory, input=script).stdout.strip()
    assert slurm.slurm("squeue", "-h", "-t", "all", "-o", "%j", "-j", job) == "from-input"


@pytest.mark.parametrize("rules", [Rules(before=0.5), Rules(after=0.5)])
def test_delays(commands: WrappedCommands, call: Call, rules: Rules) -> None:
    commands.set("sbatch", rules)
    start = time.time()
    call(*SUBMIT)
    (submission,) = commands.calls("sbatch")
    end = time.time()
    assert submission.returned is not None
    assert submission.returned - submission.entered >= rules.before
    assert end - submission.returned >= rules.after
    assert submission.entered >= start


def test_refused_calls_submit_nothing(commands: WrappedCommands, call: Call, slurm: Lab) -> None:
    commands.set("sbatch", refuse_first=2, error="sbatch: error: not now")
    done = [call(*SUBMIT) for _ in range(3)]
    assert [d.returncode for d in done] == [1, 1, 0]
    assert done[0].stderr == "sbatch: error: not now\n"
    assert [c.stdout != "" for c in commands.calls("sbatch")] == [False, False, True]


def test_a_lost_answer_leaves_a_job(commands: WrappedCommands, call: Call, slurm: Lab) -> None:
    commands.set("sbatch", fail_first=1)
    done = call(*SUBMIT)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Socket timed out" in done.stderr
    job = commands.calls("sbatch")[0].stdout.strip()
    assert slurm.slurm("squeue", "-h", "-t", "all", "-o", "%A", "-j", job) == job


@pytest.mark.parametrize(
    ("rules", "shape"),
    [
        (Rules(banner="Welcome to alpha\n"), "Welcome to alpha\n{job}\n"),
        (Rules(suffix=";alpha"), "{job};alpha\n"),
        (Rules(silent=True), ""),
    ],
)
def test_changed_answers(commands: WrappedCommands, call: Call, rules: Rules, shape: str) -> None:
    commands.set("sbatch", rules)
    done = call(*SUBMIT)
    job = commands.calls("sbatch")[0].stdout.strip()
    assert (done.returncode, done.stdout) == (0, shape.format(job=job))


def test_sbatch_outlives_a_caller_killed_as_it_enters(commands: WrappedCommands, slurm: Lab) -> None:
    commands.set("sbatch", before=0.1, held=1)
    caller = slurm.popen_as_user(
        ["sh", "-c", '"$@"; echo "$?" > told', "sh", *SUBMIT],
        env=commands.env(slurm.env()),
        cwd=commands.directory,
        stdout=subprocess.DEVNULL,
    )
    assert kill_at(caller, commands.entered("sbatch"))
    assert commands.calls("sbatch")[0].returned is None
    commands.release()
    deadline = time.monotonic() + 60
    while not commands.returned("sbatch")():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert commands.calls("sbatch")[0].status == 0
    assert not (commands.directory / "told").exists()


def test_a_group_dies_with_its_sbatch(commands: WrappedCommands, slurm: Lab) -> None:
    commands.set("sbatch", before=0.1, held=1)
    env = commands.env(slurm.env())
    caller = slurm.popen_as_user(["sh", "-c", '"$@"; :', "sh", *SUBMIT], env=env, cwd=commands.directory)
    assert kill_at(caller, commands.entered("sbatch"), group=True)
    commands.release()
    time.sleep(0.8)
    assert commands.calls("sbatch")[0].returned is None


def test_kill_when_a_file_appears(tmp_path: Path) -> None:
    writer = subprocess.Popen(["sh", "-c", "mkdir a; : > a/intent.json; sleep 30; : > late"], cwd=tmp_path)
    assert kill_at(writer, exists(tmp_path, "*/intent.json"))
    assert not (tmp_path / "late").exists()


def test_kill_after_a_while() -> None:
    sleeper = subprocess.Popen(["sleep", "30"])
    start = time.monotonic()
    assert kill_at(sleeper, after(0.2))
    assert time.monotonic() - start >= 0.2


def test_a_process_that_ended_first_was_not_killed(tmp_path: Path) -> None:
    assert not kill_at(subprocess.Popen(["true"]), exists(tmp_path, "never"))


def test_a_point_that_never_comes_is_an_error(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "30"])
    with pytest.raises(TimeoutError):
        kill_at(sleeper, exists(tmp_path, "never"), timeout=0.2)
    assert sleeper.poll() is not None


@needs_root
def test_a_full_disk(workspace: Path, lab_user: LabUser) -> None:
    (workspace / "disk").mkdir()
    with small_disk(workspace / "disk", 64, lab_user) as disk:
        write = ["sh", "-c", f"head -c 8192 /dev/zero >> {disk}/data"]
        filler = fill(disk, leave_kib=8)
        assert lab_user.can(write)
        fill(disk)
        assert not lab_user.can(write)
        filler.unlink()
        assert lab_user.can(write)
    assert list((workspace / "disk").iterdir()) == []


@needs_root
def test_nodes_see_the_small_disk(workspace: Path, lab_user: LabUser, slurm: Lab) -> None:
    (workspace / "disk").mkdir()
    with small_disk(workspace / "disk", 64, lab_user) as disk:
        slurm.slurm("srun", "touch", f"{disk}/from-a-node")
        assert (disk / "from-a-node").stat().st_uid == lab_user.uid


def test_an_unwritable_folder(workspace: Path, lab_user: LabUser) -> None:
    write = ["touch", str(workspace / "file")]
    with unwritable(workspace):
        assert not lab_user.can(write)
    assert lab_user.can(write)


def test_a_path_without_sbatch(session_dir: Path, slurm: Lab) -> None:
    path = path_without(session_dir / "no-sbatch", PATH, "sbatch")
    found = slurm.run_as_user(
        ["sh", "-c", "for c in sbatch squeue ls; do command -v $c; done"], env=slurm.env(PATH=path)
    ).stdout
    assert found.split() == [f"{path}/squeue", f"{path}/ls"]
