"""The lab is what the other tests take it for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.lab import Lab, LabUser, Launcher, checkout_for

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def test_two_partitions_of_two_nodes_with_eight_gpus(slurm: Lab) -> None:
    rows = set(slurm.slurm("sinfo", "-h", "-N", "-o", "%N %P %G").splitlines())
    assert rows == {"a3m-0 a3m* gpu:8", "a3m-1 a3m* gpu:8", "a3u-0 a3u gpu:8", "a3u-1 a3u gpu:8"}


def test_a_step_spans_nodes_that_know_their_names(slurm: Lab) -> None:
    assert set(slurm.slurm("srun", "-N2", "-n2", "hostname").splitlines()) == {"a3m-0", "a3m-1"}


def test_commands_run_without_rights_in_a_clean_environment(slurm: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "of-whoever-runs-the-tests")
    shown = slurm.slurm("sh", "-c", "id -un; env")
    assert shown.splitlines()[0] == slurm.user.name != "root"
    assert "HF_TOKEN" not in shown


def test_leftover_jobs_are_found_by_their_folder(
    slurm: Lab, workspace: Path, make_workspace: Callable[[], Path]
) -> None:
    job = slurm.slurm("sbatch", "--parsable", "-o", "/dev/null", "-D", str(workspace), "--wrap", "sleep 60")
    try:
        assert list(slurm.jobs(workspace)) == [job]
        assert slurm.jobs(make_workspace()) == {}
    finally:
        slurm.scancel(job)
    slurm.wait_idle(workspace)
    assert slurm.jobs(workspace) == {}


def test_starting_a_running_cluster_changes_nothing(slurm: Lab) -> None:
    pid = (slurm.directory / "run" / "slurmctld.pid").read_text()
    assert slurm.start() is False
    assert (slurm.directory / "run" / "slurmctld.pid").read_text() == pid


def test_the_login_node_lets_the_user_in(slurm: Lab) -> None:
    ssh = ["ssh", "-F", str(slurm.directory / "ssh" / "config"), "login-0"]
    seen = slurm.slurm(*ssh, "hostname; id -un; sinfo -h -o %R").split()
    assert seen == ["login-0", slurm.user.name, "a3m", "a3u"]


def test_without_accounting_sacct_fails_and_jobs_run(slurm_noacct: Lab) -> None:
    done = slurm_noacct.run_as_user(["sacct"])
    assert (done.returncode, done.stderr.strip()) == (1, "Slurm accounting storage is disabled")
    assert slurm_noacct.slurm("srun", "hostname") == "a3m-0"


def test_affinity_binds_a_task_to_one_of_two_processors(slurm_affinity: Lab) -> None:
    seen = slurm_affinity.slurm("srun", "-N1", "-n2", "--cpu-bind=cores", "nproc")
    assert seen.split() == ["1", "1"]


def test_jobenv_shows_a_jobs_environment(slurm_jobenv: Lab) -> None:
    env = slurm_jobenv.env(SECRET_TOKEN="in-clear")
    argv = ["sbatch", "--parsable", "--export=ALL", "-o", "/dev/null", "--wait", "--wrap", "true"]
    job = slurm_jobenv.run_as_user(argv, env=env).stdout.strip()
    deadline = time.monotonic() + 60  # slurmctld hands the environment to the database when it finds time
    while "SECRET_TOKEN=in-clear" not in slurm_jobenv.slurm("sacct", "--env-vars", "-j", job):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_the_python_of_the_tests_runs_on_a_node(slurm_launcher: Launcher, slurm: Lab) -> None:
    code = "import sys, yaml; print(sys.version, yaml.__version__)"
    assert slurm.slurm("srun", str(slurm_launcher.python), "-c", code) == f"{sys.version} {yaml.__version__}"


def test_the_launcher_runs_without_rights(launcher: Launcher) -> None:
    launcher.write("deep/er/recipe.py", "pass\n")
    assert launcher.user.can_read(launcher.work / "deep/er/recipe.py")
    who = subprocess.run([*launcher.prefix, "id", "-u"], capture_output=True, text=True, check=True)
    assert int(who.stdout) == launcher.user.uid != 0
    assert (launcher.work.stat().st_uid, launcher.runs.stat().st_uid) == (launcher.user.uid,) * 2


@needs_root
def test_a_checkout_under_a_private_folder_is_copied(tmp_path: Path, session_dir: Path, lab_user: LabUser) -> None:
    private = tmp_path / "private" / "clone"
    (private / "nemo_launch").mkdir(parents=True)
    (private / "run.py").write_text("print('it runs')\n")
    (private / "nemo_launch" / "errors.py").touch(mode=0o600)
    (private / "ignored.bin").touch()
    (private / ".gitignore").write_text("*.bin\n")
    (tmp_path / "private").chmod(0o700)
    subprocess.run(["git", "init", "-q", str(private)], check=True)
    where = session_dir / "copies"
    where.mkdir()
    copy = checkout_for(lab_user, where, private)
    assert copy != private
    assert lab_user.can_read(copy / "run.py")
    assert lab_user.can_read(copy / "nemo_launch" / "errors.py")
    assert not (copy / "ignored.bin").exists()


@needs_root
@pytest.mark.parametrize(("required", "outcome"), [("", "1 skipped"), ("1", "1 error")])
def test_a_run_without_the_cluster_says_so(launcher: Launcher, required: str, outcome: str) -> None:
    """Whoever runs the tests without rights cannot have the cluster: a skip nobody can miss, or a failure."""
    one = "tests/lab/test_lab.py::test_two_partitions_of_two_nodes_with_eight_gpus"
    done = subprocess.run(
        [*launcher.prefix, str(launcher.python), "-m", "pytest", "-p", "no:cacheprovider", one],
        env=launcher.env(NEMO_LAUNCH_REQUIRE_SLURM=required, PYTHONDONTWRITEBYTECODE="1"),
        cwd=launcher.checkout,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert outcome in done.stdout.splitlines()[-1]
    assert (done.returncode == 0) == (not required)
    assert ("REAL SLURM TESTS WERE SKIPPED: the cluster's daemons need root" in done.stdout) == (not required)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_are_clean() -> None:
    here = Path(__file__).parent
    done = subprocess.run(
        ["shellcheck", "-x", *map(str, sorted(here.glob("*.sh")))],
        cwd=here.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
