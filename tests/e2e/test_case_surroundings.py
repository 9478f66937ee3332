"""Siblings of field cases 7, 16, 21 and 43: what a user's shell, folders and site may look like around a launch."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence

from tests.e2e.scene import Scene, names
from tests.faults import path_without

SLURM = ["-e", "slurm", "-p", "a3m"]


def shell(scene: Scene, text: str, *words: str, drop: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
    """``text`` in a user's shell, where ``"$@"`` is a launch that waits: it succeeds, and the payload ran."""
    lab = scene.launcher.lab
    assert lab is not None
    ran = scene.launcher.workspace / "ran"
    argv = scene.launcher.argv(*SLURM, "--wait", *words, "-s", "payload.sh", "--", "payload", ran)
    clean = [f"--unset={name}" for name in drop]
    done = lab.run_as_user(
        ["env", *clean, "sh", "-c", text, "sh", *argv],
        env={**scene.launcher.env(), **(env or {})},
        cwd=scene.launcher.work,
    )
    assert done.returncode == 0, (done.stdout, done.stderr, scene.logs())
    (line,) = scene.ran()
    assert line.split()[1] in scene.jobs()
    assert names(scene.status()) == ["SUCCEEDED"]


HOSTILE = {
    "SBATCH_TIMELIMIT": "1", "SBATCH_ARRAY_INX": "0-3", "SBATCH_WAIT": "1", "SBATCH_EXPORT": "NONE",
    "SBATCH_OUTPUT": "/nowhere/x", "SBATCH_CLUSTERS": "nowhere", "SLURM_CLUSTERS": "nowhere",
    "SLURM_EXPORT_ENV": "NONE", "SLURM_NTASKS": "7", "SLURM_HINT": "nomultithread", "SLURM_JOB_NAME": "x",
    "SLURM_MPI_TYPE": "none", "SCANCEL_STATE": "PENDING", "SINFO_PARTITION": "nowhere",
}  # fmt: skip


def test_options_of_slurm_in_the_users_shell_are_no_options_of_the_launch(there: Scene) -> None:
    shell(there, '"$@"', env=HOSTILE)
    lab = there.launcher.lab
    assert lab is not None
    (job,) = there.jobs()
    facts = lab.slurm("scontrol", "show", "job", job)
    assert "TimeLimit=01:00:00" in facts and "NumTasks=1 " in facts and "ArrayJobId" not in facts


def test_from_inside_an_allocation_the_job_is_one_of_its_own(there: Scene) -> None:
    """Two nodes of another partition are held, with little memory: nothing of that is the new job's."""
    shell(there, 'exec salloc -Q -p a3u -N2 --mem=10 --cpus-per-task=2 "$@"')
    lab = there.launcher.lab
    assert lab is not None
    (job,) = there.jobs()
    facts = lab.slurm("scontrol", "show", "job", job)
    assert "Partition=a3m" in facts and "NumNodes=1 " in facts and "MinMemoryNode=10M" not in facts


def test_without_what_a_login_sets(there: Scene) -> None:
    shell(there, '"$@"', drop=("HOME", "USER", "LOGNAME", "LANG"))


def test_new_files_that_nobody_else_may_read(there: Scene) -> None:
    shell(there, 'umask 077; "$@"')


def test_a_mask_that_keeps_the_user_out_of_new_folders_is_refused_and_leaves_nothing(there: Scene) -> None:
    lab = there.launcher.lab
    assert lab is not None
    argv = there.launcher.argv(*SLURM, "-s", "payload.sh", "--", "payload", there.launcher.workspace / "ran")
    done = lab.run_as_user(
        ["sh", "-c", 'umask 777; "$@"', "sh", *argv], env=there.launcher.env(), cwd=there.launcher.work
    )
    assert done.returncode == 2 and "NEMORUN_HOME" in done.stderr and "Traceback" not in done.stderr
    assert there.jobs() == {} and there.experiments() == []


def test_a_shell_of_another_language_and_time_zone(there: Scene) -> None:
    zone = {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "TZ": "Asia/Kolkata"}
    before = time.time()
    shell(there, '"$@"', env=zone)
    for left in there.directory().glob("seen.json"):
        left.unlink()
    (task,) = there.status(env={"TZ": "America/St_Johns"})
    for name in ("submitted", "started", "ended"):
        assert before - 60 <= task[name] <= time.time() + 60, name


def test_a_work_dir_behind_a_link_with_blanks_and_a_dash_in_its_name(there: Scene) -> None:
    launcher = there.launcher
    place = launcher.user.make_dir(launcher.workspace / "-n 2 é 'x' $HOME")
    shutil.copy(launcher.work / "payload.sh", place)
    link = launcher.workspace / "link"
    link.symlink_to(place)
    shell(there, 'cd "$PLACE" && "$@"', env={"PLACE": str(link)})


def test_a_current_directory_that_nobody_may_write_to(there: Scene) -> None:
    launcher = there.launcher
    place = launcher.user.make_dir(launcher.workspace / "closed")
    shutil.copy(launcher.work / "payload.sh", place)
    place.chmod(0o555)
    shell(there, 'cd "$PLACE" && "$@"', env={"PLACE": str(place)})
    assert os.listdir(place) == ["payload.sh"]


def test_a_list_of_partitions(there: Scene) -> None:
    shell(there, '"$@"', "--partition", "a3u,a3m")


def test_thousands_of_arguments_and_a_long_one(there: Scene) -> None:
    words = ["x" * 100_000, *map(str, range(5000))]
    there.launcher.write("count.sh", 'echo "$# ${#1} ${5001}"\n', 0o755)
    assert there(*SLURM, "--wait", "-s", "count.sh", "--", *words).returncode == 0, there.logs()
    assert there.log() == "5001 100000 4999\n"
    assert json.loads((there.directory() / "task.json").read_text())["argv"][1:] == words


def test_a_site_that_has_neither_sacct_nor_scontrol(there: Scene) -> None:
    launcher = there.launcher
    folder = launcher.workspace / "bin"
    path = path_without(folder, launcher.env()["PATH"], "sacct", "scontrol")
    launcher.write("seven.sh", "exit 7\n", 0o755)
    assert there(*SLURM, "--wait", "-s", "seven.sh", PATH=path).returncode == 1
    for pattern in ("seen.json", "exit-*.json", "ranks-*/first-failure.json"):
        for left in there.directory().glob(pattern):
            left.unlink()
    (task,) = there.status(env={"PATH": path})  # what squeue still shows is enough
    assert task["state"] == "FAILED"
    there(*SLURM, "-s", "payload.sh", "--", "payload", launcher.workspace / "ran", "600", PATH=path)
    assert there("cancel", "payload", PATH=path).returncode == 0
    assert names(there.status("payload", env={"PATH": path})) == ["CANCELLED"]
