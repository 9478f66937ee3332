"""The batch script: golden files of its head, and that it is a function of the request alone."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.executors.slurm import SlurmExecutor, render
from nemo_launch.executors.slurm.facts import Facts
from nemo_launch.layout import ExperimentPaths, TaskPaths
from nemo_launch.task import Member, Task

GOLDEN = Path(__file__).with_name("golden")
PATHS = ExperimentPaths("/home/ann/.nemo_run", "demo", "demo_1753123402").task("demo")
PYTHON = Task(
    name="demo",
    recipe="train.py",
    language="python",
    argv=("/home/ann/.nemo_run/snapshots/0123/train.py", "lr=1e-3", "a b", "$HOME"),
    env={"NCCL_DEBUG": "INFO"},
    pythonpath=("/home/ann/.nemo_run/snapshots/0123",),
    work_dir="/home/ann/work",
)
SHELL = replace(PYTHON, language="shell", argv=("/home/ann/run.sh",), pythonpath=(), env={})

REQUESTS: dict[str, tuple[Task, dict[str, Any]]] = {
    "smallest": (SHELL, {}),
    "torchrun": (
        PYTHON,
        {
            "nodes": 2, "ntasks_per_node": 8, "gpus_per_node": 8, "exclusive": True, "mem": "0", "partition": "a3m",
            "account": "llm", "time": "2-12", "python": "/opt/venv/bin/python",
        },
    ),
    "everything": (
        PYTHON,
        {
            "job_name": "my job", "nodes": 4, "ntasks_per_node": 2, "cpus_per_task": 12, "gpus_per_node": 2,
            "mem_per_gpu": "80G", "time": "4:00", "margin": "0:45", "signal": "USR1", "account": "llm",
            "partition": "a3m,a3u", "qos": "high", "constraint": "h100&nvlink", "reservation": "school",
            "nodelist": "a3m-[0-3]", "exclude": "a3m-9", "mail_type": "END,FAIL", "mail_user": "ann@example.org",
            "mpi": "pmix", "master_port": 20000, "setup": "module load cuda\necho 'ready'", "launcher": "srun",
            "srun_args": ["--cpu-bind=cores"], "sbatch_args": ["--gres=shard:2", "--nice=10"], "python": "python3.11",
        },
    ),
    "ft": (
        PYTHON,
        {
            "nodes": 2, "ntasks_per_node": 8, "launcher": "ft", "ft_max_restarts": 5, "ft_rank_heartbeat_timeout": 90,
            "ft_initial_rank_heartbeat_timeout": 600, "ft_restart_policy": "any-failed",
            "ft_args": ["--ft-log-level=WARNING"],
        },
    ),
    "nsys": (
        PYTHON,
        {
            "nodes": 2, "ntasks_per_node": 8, "nsys_enabled": True, "nsys_capture_range": "cudaProfilerApi",
            "nsys_ranks": [0, 8], "nsys_output": "profiles/%h-%p", "nsys_args": ["--cuda-memory-usage=true"],
        },
    ),
    "container": (
        replace(PYTHON, secrets=("HF_TOKEN",)),
        {
            "container_image": "/images/nemo.sqsh", "container_mounts": ["/data:/d:ro"], "log_dir": "/scratch/logs",
            "cache_dir": "/home/ann/work/cache", "container_mount_home": False,
        },
    ),
}  # fmt: skip


def head(script: str) -> str:
    """Directives and values: what differs between jobs."""
    return script[: script.index("\n\n") + 1]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Facts, "accounting_shows_environment", False)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_script_is_the_golden_one(name: str) -> None:
    task, fields = REQUESTS[name]
    script = SlurmExecutor(**{"python": "python3", **fields}).plan(task, PATHS).script
    golden = GOLDEN / f"{name}.sh"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(head(script))
    assert head(script) == golden.read_text()


def test_the_script_of_a_heterogeneous_job_is_the_golden_one() -> None:
    common: dict[str, Any] = {
        "account": "llm",
        "qos": "high",
        "time": "4:00:00",
        "resume_on": "timeout",
        "mail_type": "END",
    }
    server = SlurmExecutor(nodes=4, ntasks_per_node=8, gpus_per_node=8, partition="a3m", mem="0", **common)
    client = SlurmExecutor(partition="cpu", constraint="big&fast", mem="8G", cpus_per_task=4, **common)
    members = (
        Member(replace(SHELL, name="server"), server),
        Member(replace(SHELL, name="client"), client),
        Member(replace(SHELL, name="watch"), client),
    )
    plan = server.plan(replace(SHELL, argv=("group.sh", "leader", "server", "client", "watch"), members=members), PATHS)
    golden = GOLDEN / "hetjob.sh"
    text = head(plan.script) + "\n" + head(plan.files["client/job.sh"].decode())
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text.replace(sys.executable, "python3"))
    assert text.replace(sys.executable, "python3") == golden.read_text()


def test_equal_requests_give_equal_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    first = SlurmExecutor(nodes=2, time="1:00:00").plan(PYTHON, PATHS)
    monkeypatch.chdir("/")
    assert SlurmExecutor(nodes=2, time="1:00:00").plan(PYTHON, PATHS) == first


def test_the_plans_command_is_what_runs() -> None:
    assert SlurmExecutor().plan(SHELL, PATHS).command == ("sbatch", "--parsable", PATHS.script)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"time": "2:00:00"}, 600),
        ({"time": "10"}, 120),
        ({"time": "0:03"}, 1),
        ({"time": "1-00", "margin": "1:00:00"}, 3600),
        ({"time": "30-00", "margin": "20-00"}, 65535),
    ],
)
def test_the_margin_before_the_limit(fields: dict[str, Any], seconds: int) -> None:
    assert f"--signal=B:USR1@{seconds}\n" in SlurmExecutor(**fields).plan(SHELL, PATHS).script


def test_without_a_limit_there_is_no_margin() -> None:
    assert "--signal" not in head(SlurmExecutor().plan(SHELL, PATHS).script)


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"margin": "10"}, "time"),
        ({"signal": "USR1"}, "time"),
        ({"container_mounts": ["/a"]}, "container_image"),
        ({"container_workdir": "/a"}, "container_image"),
        ({"container_mount_home": False}, "container_image"),
        ({"container_writable": True}, "container_image"),
        ({"container_name": "nemo"}, "container_image"),
    ],
)
def test_what_has_no_effect_is_said(fields: dict[str, Any], needed: str) -> None:
    (name,) = fields
    assert SlurmExecutor(**fields).plan(SHELL, PATHS).notes == (f"{name} has no effect without {needed}",)


@pytest.mark.parametrize(
    ("task", "fields", "launcher"),
    [
        (PYTHON, {}, "torchrun"),
        (SHELL, {}, "none"),
        (SHELL, {"nodes": 2}, "srun"),
        (SHELL, {"ntasks_per_node": 2}, "srun"),
        (PYTHON, {"launcher": "none"}, "none"),
    ],
)
def test_how_the_processes_start_by_default(task: Task, fields: dict[str, Any], launcher: str) -> None:
    assert render.launcher(SlurmExecutor(**fields).config, task) == launcher


def test_percent_signs_of_folders_are_no_placeholders() -> None:
    script = SlurmExecutor().plan(SHELL, TaskPaths("/h/50%j", "/h/50%j")).script
    assert "#SBATCH --output=/h/50%%j/%j.log\n" in script
    assert "#SBATCH --chdir=/h/50%j\n" in script


def test_site_defaults_are_shown_and_those_of_a_surrounding_job_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "a3u")
    monkeypatch.setenv("SBATCH_ARRAY_INX", "0-9")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    plan = SlurmExecutor(inherit_env=True).plan(SHELL, PATHS)
    assert plan.env["SBATCH_PARTITION"] == "a3u" and "SBATCH_ARRAY_INX" not in plan.env
    assert any("SBATCH_PARTITION=a3u" in note for note in plan.notes)
    # sbatch takes the variable before the directive
    assert "SBATCH_PARTITION" not in SlurmExecutor(partition="a3m").plan(SHELL, PATHS).env
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "1")
    inside = SlurmExecutor(inherit_env=True).plan(SHELL, PATHS)
    assert not {"SBATCH_PARTITION", "SLURM_JOB_ID", "SLURM_MEM_PER_CPU"} & set(inside.env)
    assert inside.env["SLURM_CONF"] == "/etc/slurm.conf"


def test_secrets_are_named_and_their_values_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "s3cr3t-1")
    executor = SlurmExecutor(env_vars={"MY_KEY": "s3cr3t-2", "PLAIN": "x"}, secrets=["OTHER_TOKEN"])
    plan = executor.plan(replace(SHELL, secret_values={"OTHER_TOKEN": "s3cr3t-3"}), PATHS)
    assert set(plan.secrets) == {"HF_TOKEN", "MY_KEY", "OTHER_TOKEN"}
    assert "s3cr3t" not in repr((plan, executor, executor.config)) + plan.script + repr(dict(plan.env))


def test_a_secret_that_is_passed_through_travels_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t")
    monkeypatch.setenv("PLAIN", "x")
    plan = SlurmExecutor(passthrough=["MY_KEY", "PLAIN", "UNSET_KEY"]).plan(SHELL, PATHS)
    assert (plan.secrets, plan.env["PLAIN"]) == (("MY_KEY",), "x")
    assert "s3cr3t" not in repr(plan)


def test_where_accounting_shows_environments_secrets_travel_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Facts, "accounting_shows_environment", True)
    monkeypatch.setenv("HF_TOKEN", "s3cr3t")
    plan = SlurmExecutor().plan(SHELL, PATHS)
    assert f"nl_secrets_file={PATHS.secrets}\n" in plan.script
    monkeypatch.delenv("HF_TOKEN")
    assert "nl_secrets_file=''\n" in SlurmExecutor().plan(SHELL, PATHS).script
