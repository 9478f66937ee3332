"""Bad input through run.py, by a user without rights: one clear paragraph, exit code 2 or 3, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeScene
from tests.e2e.scene import Scene
from tests.faults import exists, fill, path_without, small_disk, unwritable
from tests.lab import Lab

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
SLURM = ["-e", "slurm", "-p", "a3m"]


def refused(scene: Scene, done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    """Paragraphs that say these words, and nothing else anywhere."""
    assert done.returncode == code, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines and all(line.startswith("run.py: ") for line in lines), done.stderr
    assert "Traceback" not in done.stderr and "bug in nemo_launch" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert scene.created() == []
    if scene.launcher.lab:
        assert scene.jobs() == {}


@pytest.fixture(scope="module")
def scene(make_scene: MakeScene, slurm: Lab) -> Iterator[Scene]:
    made = make_scene(slurm)
    made.launcher.write("unknown-key.yaml", "partitoin: a3m\n")
    made.launcher.write("wrong-type.yaml", "nodes: two\n")
    made.launcher.write("profiles.yaml", "executors:\n  bad:\n    executor: slurm\n    nodse: 2\n")
    yield made


RUN = ["-s", "payload.sh"]
CASES: dict[str, tuple[list[str], list[str]]] = {
    "unknown flag": ([*SLURM, *RUN, "--partiton", "a3m"], ["--partiton", "--partition"]),
    "unknown short flag": ([*SLURM, *RUN, "-Z"], ["-Z"]),
    "unknown key": ([*SLURM, *RUN, "--config", "unknown-key.yaml"], ["partitoin", "partition", "unknown-key.yaml"]),
    "unknown executor": (["-e", "slrum", *RUN], ["slrum", "slurm"]),
    "unknown partition": (["-e", "slurm", "-p", "a3x", *RUN], ["a3x", "a3m (up, default)", "a3u (up)"]),
    "default partition": (["-e", "slurm", *RUN], ["general", "a3m", "--partition"]),
    "flag without use": (["-e", "local", *RUN, "-n", "2"], ["--nodes", "local"]),
    "another one": (["-e", "local", *RUN, "--qos", "high"], ["--qos", "local"]),
    "missing script": ([*SLURM, "-s", "nowhere.py"], ["nowhere.py"]),
    "no script": (SLURM, ["-s"]),
    "a folder as script": ([*SLURM, "-s", "."], ["-s/--script"]),
    "wrong type": ([*SLURM, *RUN, "-n", "two"], ["'two'", "--nodes"]),
    "wrong type in a file": ([*SLURM, *RUN, "--config", "wrong-type.yaml"], ["'two'", "wrong-type.yaml"]),
    "out of range": ([*SLURM, *RUN, "-n", "0"], ["--nodes"]),
    "negative": ([*SLURM, *RUN, "-n", "-1"], ["--nodes"]),
    "bad duration": ([*SLURM, *RUN, "--time", "soon"], ["soon", "--time"]),
    "empty value": ([*SLURM, *RUN, "--experiment-name", ""], ["--experiment-name"]),
    "two modes": ([*SLURM, *RUN, "--wait", "--detach"], ["--wait", "--detach"]),
    "missing value": ([*SLURM, "-s"], ["-s"]),
    "missing work dir": ([*SLURM, *RUN, "-d", "/no/such/dir"], ["/no/such/dir"]),
    "missing config": ([*SLURM, *RUN, "--config", "no.yaml"], ["no.yaml"]),
    "unset secret": ([*SLURM, *RUN, "--secret", "NOT_SET_HERE"], ["NOT_SET_HERE", "--secret"]),
    "bad name of a variable": ([*SLURM, *RUN, "--env", "A-B=1"], ["A-B", "--env"]),
    "too many processes for nothing": (["-e", "local", *RUN, "--ntasks-per-node", "2"], ["--ntasks-per-node"]),
    "unknown launcher": ([*SLURM, *RUN, "--launcher", "torchrn"], ["torchrn", "torchrun"]),
    "srun on this machine": (["-e", "local", *RUN, "--launcher", "srun"], ["srun", "--launcher"]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_work_is_refused_and_leaves_nothing(scene: Scene, case: str) -> None:
    words, said = CASES[case]
    refused(scene, scene(*words), *said)


def test_an_unknown_experiment_is_refused(scene: Scene) -> None:
    for verb in ("status", "logs", "cancel", "show"):
        done = scene(verb, "no-such-thing")
        assert done.returncode == 2
        assert "no-such-thing" in done.stderr and "Traceback" not in done.stderr


def test_what_slurm_itself_refuses_is_told_in_its_words(there: Scene) -> None:
    there.launcher.write("more.yaml", "nodelist: no-such-node\n")
    done = there(*SLURM, *RUN, "--config", "more.yaml")
    assert done.returncode == 3
    assert "Invalid node name" in done.stderr and "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1
    assert there.created() == [] and there.jobs() == {}
    assert there("list").returncode == 0


@pytest.mark.parametrize("words", [["-n", "100"], ["--constraint", "nope"], ["--mem", "9999T"]])
@pytest.mark.parametrize("place", ["runs", "a home that is not there"])
def test_what_slurm_itself_refuses_leaves_nothing(there: Scene, words: list[str], place: str) -> None:
    there.launcher.write("more.yaml", f"constraint: {words[1]}\n")
    asked = ["--config", "more.yaml"] if words[0] == "--constraint" else words
    home = there.launcher.runs if place == "runs" else there.launcher.workspace / "new" / "home"
    done = there(*SLURM, *RUN, *asked, NEMORUN_HOME=str(home))
    assert done.returncode == 3 and "sbatch refused payload" in done.stderr and "Traceback" not in done.stderr
    assert there.created() == [] and there.ran() == []
    assert place == "runs" or not home.parent.exists()
    # Slurm itself keeps a record of some that it refuses
    assert set(there.jobs().values()) <= {"FAILED"}


@pytest.mark.parametrize("executor", ["local", "slurm"])
def test_an_unwritable_home(make_scene: MakeScene, slurm: Lab, executor: str) -> None:
    scene = make_scene(slurm)
    with unwritable(scene.launcher.runs):
        done = scene("-e", executor, *(["-p", "a3m"] if executor == "slurm" else []), *RUN)
    refused(scene, done, str(scene.launcher.runs), "NEMORUN_HOME")


def test_a_home_that_is_a_file(there: Scene) -> None:
    there.launcher.write("file", "")
    refused(there, there(*SLURM, *RUN, NEMORUN_HOME=str(there.launcher.work / "file")), "file", "NEMORUN_HOME")


def test_sbatch_is_missing(there: Scene) -> None:
    path = path_without(there.launcher.workspace / "bin", there.launcher.env()["PATH"], "sbatch")
    refused(there, there(*SLURM, *RUN, PATH=path), "sbatch", "login node")


def test_no_slurm_at_all(there: Scene) -> None:
    names = ("sbatch", "squeue", "sinfo", "sacct", "scontrol", "scancel", "srun")
    path = path_without(there.launcher.workspace / "bin", there.launcher.env()["PATH"], *names)
    refused(there, there(*SLURM, *RUN, PATH=path), "sbatch")


@pytest.fixture
def without_torch(there: Scene) -> str:
    """A Python that has nothing installed."""
    folder = there.launcher.workspace / "bare"
    argv = [*there.launcher.prefix, str(there.launcher.python), "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(argv, check=True, env=there.launcher.env(), cwd=there.launcher.work, capture_output=True)
    return str(folder / "bin" / "python")


@pytest.mark.parametrize("executor", [["-e", "local"], SLURM])
def test_no_torch_here_is_refused_before_anything_starts(there: Scene, without_torch: str, executor: list[str]) -> None:
    there.launcher.write("train.py", "print('never')\n")
    done = there(*executor, "-s", "train.py", "--python", without_torch, "--ntasks-per-node", "2")
    refused(there, done, "torch", without_torch)


def test_no_torch_on_the_node_is_told_with_its_remedy(there: Scene, without_torch: str) -> None:
    there.launcher.write("train.py", "print('never')\n")
    there.launcher.write("setup.yaml", "setup: 'true  # may bring another torch, so the launcher cannot know'\n")
    words = ("--config", "setup.yaml", "-s", "train.py", "--python", without_torch, "--wait", "-n", "2")
    done = there(*SLURM, *words)
    assert done.returncode == 1
    (task,) = there.status()
    assert task["state"] == "FAILED"
    assert "torch" in task["reason"] and without_torch in task["reason"] and "\n\n" not in task["reason"]
    assert "a3m-" in task["reason"] and ("install" in task["reason"].lower() or "python" in task["reason"])
    assert "- Reason:" in done.stdout and "never" not in there.log()


# -- full disks ----------------------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("executor", ["local", "slurm"])
def test_a_home_that_is_full_from_the_start(make_scene: MakeScene, slurm: Lab, executor: str) -> None:
    scene = make_scene(slurm)
    with small_disk(scene.launcher.runs, 64, scene.launcher.user):
        filler = fill(scene.launcher.runs)
        done = scene("-e", executor, *(["-p", "a3m"] if executor == "slurm" else []), *RUN)
        assert done.returncode == 2, done
        assert "No space left" in done.stderr and "NEMORUN_HOME" in done.stderr
        assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
        assert scene.created() == [filler.name]
        assert scene.jobs() == {}


@needs_root
@pytest.mark.parametrize("room", range(4, 100, 8))
def test_a_home_that_becomes_full_on_the_way(make_scene: MakeScene, slurm: Lab, room: int) -> None:
    """Whatever is the first thing that finds no room: no job without a record, and no half experiment."""
    scene = make_scene(slurm)
    ran = scene.launcher.workspace / "ran"
    with small_disk(scene.launcher.runs, 256, scene.launcher.user):
        filler = fill(scene.launcher.runs, room)
        done = scene(*SLURM, *RUN, "--", "p", str(ran))
        assert "Traceback" not in done.stderr and "bug in nemo_launch" not in done.stderr
        jobs = scene.jobs()
        if done.returncode:
            assert done.returncode == 2
            assert "No space left" in done.stderr or "could not be recorded" in done.stderr
        filler.unlink()
        if jobs:
            (task,) = scene.ended()
            assert [task["job_id"]] == list(jobs)
        else:
            assert done.returncode != 0
            assert scene.created() == []


@needs_root
def test_a_disk_that_is_full_after_the_intent(make_scene: MakeScene, slurm: Lab) -> None:
    """The id cannot be written: the job is not lost, and the same launch does not double it."""
    scene = make_scene(slurm, wrapped=True)
    assert scene.commands is not None
    scene.commands.set("sbatch", before=1.5, held=1)
    words = [*SLURM, *RUN, "--", "p", str(scene.launcher.workspace / "ran")]
    with small_disk(scene.launcher.runs, 512, scene.launcher.user):
        process = scene.start(*words, stderr=subprocess.PIPE)
        point = scene.commands.entered("sbatch")
        while not point():
            assert process.poll() is None
        filler = fill(scene.launcher.runs)
        scene.commands.release()
        _, said = process.communicate(timeout=120)
        assert process.returncode == 2, said
        (job,) = scene.jobs()
        assert f"job {job}" in said and "Traceback" not in said
        status = scene("status", "--json")
        assert json.loads(status.stdout)["tasks"][0]["job_id"] == job, status.stderr
        filler.unlink()
        assert exists(scene.launcher.runs, "experiments/*/*/*/intent.json")()
        scene.commands.set("sbatch")
        assert scene(*words).returncode == 0
        (task,) = scene.ended()
        assert task["job_id"] == job
        assert list(scene.jobs()) == [job]


def test_a_damaged_record_is_told_and_does_not_stand_in_the_way(here: Scene) -> None:
    assert here(*RUN, "--", "p", str(here.launcher.workspace / "ran")).returncode == 0
    (record,) = here.launcher.runs.glob("experiments/*/*/experiment.json")
    record.write_text("{")
    done = here("status")
    assert done.returncode == 2 and str(record) in done.stderr and "Traceback" not in done.stderr
    assert here(*RUN, "--", "p", str(here.launcher.workspace / "ran")).returncode == 0
    assert Path(record).read_text() == "{"
