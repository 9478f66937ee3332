"""Which options srun gets for a container, and which paths are mounted; no cluster is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.config.executor import SlurmConfig
from nemo_launch.config.structure import structure
from nemo_launch.executors.slurm import SlurmExecutor, containers
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Code, Task
from nemo_launch.transport import Completed, LocalTransport

#: As pyxis 0.5 had them.
OLD = """
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
      --container-workdir=PATH
      --container-mount-home  [pyxis] bind mount the user's home directory
      --no-container-mount-home
"""
TASK = Task(name="a", recipe="a.sh", language="shell", argv=("/w/a.sh",), work_dir="/w")


class Login(LocalTransport):
    """A login node whose srun has these options."""

    def __init__(self, srun_help: str) -> None:
        self.srun_help = srun_help

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return Completed(0, self.srun_help if argv[0] == "srun" else "", "")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "SBATCH_PARTITION", "SLURM_JOB_ID", "HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NEMORUN_HOME", "/h")
    monkeypatch.setenv("HOME", "/home/ann")


def executor(srun_help: str = OLD, **fields: Any) -> SlurmExecutor:
    return SlurmExecutor(structure(SlurmConfig, {"container_image": "/i.sqsh", **fields}), transport=Login(srun_help))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, []),
        ({"container_mount_home": False, "container_writable": True}, []),
        ({"container_writable": False}, ["container_writable: the pyxis of this site has no --container-readonly."]),
        ({"container_name": "n"}, ["container_name: the pyxis of this site has no --container-name."]),
    ],
)
def test_an_older_pyxis_is_asked_for_what_it_can_do(fields: dict[str, Any], said: list[str]) -> None:
    found = [str(problem) for problem in executor(**fields).check([TASK])]
    assert [line.partition(" Leave it out")[0] for line in found] == said
    script = executor(**fields).plan(TASK, TaskPaths("/h/x", "/h/x")).script.partition("\n\n")[0]
    for option in ("--container-writable", "--container-readonly", "--container-env"):
        assert option not in script
    assert ("--no-container-mount-home" in script) is ("container_mount_home" in fields)


def test_without_the_list_of_names_values_are_set_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cr3t")
    asked = executor(env_vars={"A": "2 $x", "PATH": "/p"}, cache_dir="/w/c", secrets=["MY_TOKEN"])
    plan = asked.plan(replace(TASK, secrets=("MY_TOKEN",)), TaskPaths("/h/x", "/h/x"))
    (line,) = [line for line in plan.script.splitlines() if line.startswith("nl_env=")]
    assert line == "nl_env=( PATH=/p 'A=2 $x' HF_HOME=/w/c/huggingface TORCH_HOME=/w/c/torch )"
    assert "s3cr3t" not in plan.script
    assert any("secrets that the image sets itself keep the image's values" in note for note in plan.notes)


def mounted(task: Task = TASK, **fields: Any) -> list[str]:
    config = structure(SlurmConfig, {"container_image": "/i.sqsh", **fields})
    return [mount.partition(":")[0] for mount in containers.mounts(config, task, TaskPaths("/h/e/x", "/h/e/x"))]


def test_what_lies_in_a_mount_is_not_mounted_again() -> None:
    code = (Code("/w", "0123"),)
    assert mounted() == ["/w", "/h/e/x"]
    assert mounted(replace(TASK, code=code)) == ["/w", "/h/e/x", "/h/snapshots"]
    assert mounted(replace(TASK, work_dir="/h", code=code), log_dir="/h/logs") == ["/h"]
    assert mounted(replace(TASK, work_dir="/d/w"), data_dir="/d", log_dir="/w2") == ["/h/e/x", "/w2", "/d"]


def test_a_link_that_leads_out_of_a_mount_brings_what_it_leads_to(tmp_path: Path) -> None:
    for name in ("work/inner", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work" / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "work" / "in").symlink_to("inner")
    task = replace(TASK, work_dir=str(tmp_path / "work"))
    assert mounted(task, data_dir=str(tmp_path / "work" / "in")) == [task.work_dir, "/h/e/x"]
    found = mounted(task, data_dir=str(tmp_path / "work" / "out"))
    assert found == [task.work_dir, "/h/e/x", os.path.realpath(tmp_path / "elsewhere")]


@pytest.mark.parametrize(
    ("work", "cache", "expected"),
    [
        ("/scratch/ann/work", "/scratch/ann/cache", ["/scratch/ann", "/h/e/x"]),
        ("/scratch/work", "/scratch/cache", ["/scratch/work", "/h/e/x", "/scratch/cache"]),
        ("/home/ann/work", "/home/ann/cache", ["/home/ann/work", "/h/e/x", "/home/ann/cache"]),
        ("/a/b/work", "/c/d/cache", ["/a/b/work", "/h/e/x", "/c/d/cache"]),
    ],
)
def test_work_dir_and_cache_share_a_mount_where_one_can_be_had(work: str, cache: str, expected: list[str]) -> None:
    """Not all of a file system, and not the home, whose files programs would find there unasked."""
    task = replace(TASK, work_dir=work)
    assert mounted(task, cache_dir=cache) == expected
    notes = executor(cache_dir=cache).plan(task, TaskPaths("/h/e/x", "/h/e/x")).notes
    assert any("are two mounts in the container" in note for note in notes) is (cache in expected)
