"""What is refused before anything is written; no cluster is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nemo_launch.config.executor import LocalConfig, SlurmConfig
from nemo_launch.errors import InputError, Unreachable
from nemo_launch.executors.slurm import SlurmExecutor
from nemo_launch.executors.slurm.query import SEPARATOR
from nemo_launch.task import Task
from nemo_launch.transport import CommandMissing, Completed, LocalTransport

TASK = Task(name="a", recipe="a.sh", language="shell", argv=("/w/a.sh",), work_dir="/w")


class Cluster(LocalTransport):
    """A login node with two partitions."""

    def __init__(self, srun_help: str = "", sbatch: bool = True, controller: bool = True) -> None:
        self.srun_help, self.sbatch, self.controller = srun_help, sbatch, controller
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        self.asked.append(argv[0])
        if argv[0] == "sinfo":
            if not self.controller:
                return Completed(1, "", "slurm_load_partitions: Unable to contact slurm controller (connect failure)")
            rows = (("a3m*", "up", "1-00:00:00"), ("a3u", "drain", "infinite"))
            return Completed(0, "".join(SEPARATOR.join(row) + "\n" for row in rows), "")
        if argv[0] == "srun":
            return Completed(0, self.srun_help, "")
        if argv[0] == "sh":
            return Completed(0 if self.sbatch else 127, "", "")
        raise AssertionError(argv)


def problems(transport: LocalTransport | None = None, tasks: Sequence[Task] = (TASK,), **fields: Any) -> list[str]:
    executor = SlurmExecutor(transport=transport or Cluster(), **fields)
    return [str(problem) for problem in executor.check(tasks)]


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "SBATCH_PARTITION", "SLURM_JOB_ID", "HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NEMORUN_HOME", "/h")


def test_a_good_request_has_no_problem_and_asks_little() -> None:
    cluster = Cluster()
    assert problems(cluster, nodes=2, time="1:00:00") == []
    assert cluster.asked == ["sh"]


def test_no_sbatch() -> None:
    (found,) = problems(Cluster(sbatch=False), partition="a3m")
    assert "sbatch is not on PATH" in found and "login node" in found


def test_an_unknown_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = problems(partition="general")
    assert "a3m (up, default), a3u (drain)" in found and "--partition a3m" in found
    assert problems(partition="a3m,a3u") == []
    monkeypatch.setenv("SBATCH_PARTITION", "elsewhere")
    assert "elsewhere" in problems()[0]
    assert problems(partition="a3m") == []


def test_a_controller_that_is_away_ends_the_request_at_once() -> None:
    with pytest.raises(Unreachable, match=r"nothing was submitted: the cluster does not answer .*Unable to contact"):
        problems(Cluster(controller=False), partition="general")


def test_a_configuration_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/nonexistent/slurm.conf")
    with pytest.raises(Unreachable, match="SLURM_CONF names /nonexistent/slurm.conf, which does not exist"):
        problems(Cluster(controller=False))
    assert problems() == []  # Slurm found another one


def test_questions_that_only_read_have_little_time() -> None:
    limits = []

    class Timed(Cluster):
        def run(self, argv: Sequence[str], **more: Any) -> Completed:
            limits.append(more["timeout"])
            return super().run(argv, **more)

    problems(Timed(srun_help="--container-image"), partition="a3m", container_image="/i.sqsh")
    assert len(limits) == 3 and max(limits) <= 15


def test_more_time_than_the_partition_allows() -> None:
    (found,) = problems(partition="a3m", time="2-00")
    assert "2-00:00:00" in found and "1-00:00:00" in found
    assert problems(partition="a3u", time="2-00") == problems(partition="a3m,a3u", time="2-00") == []


def test_options_that_fight_the_launchers_own() -> None:
    config = SlurmConfig(sbatch_args=("--arra=0-3",), srun_args=("--outp=x",))
    found = [str(problem) for problem in SlurmExecutor(config, transport=Cluster()).check([TASK])]
    assert len(found) == 2 and "srun_args" in found[0] and "sbatch_args" in found[1]


def test_other_options_are_free() -> None:
    assert problems(sbatch_args=["--gres=shard:1", "--nice=5", "--licenses=x:1"]) == []


@pytest.mark.parametrize("field", ["job_dir", "log_dir"])
def test_slurm_replaces_nothing_in_folder_names(field: str) -> None:
    folder: dict[str, Any] = {field: "/logs/%j"}
    (found,) = problems(**folder)
    assert "%j" in found and field in found
    folder = {field: "/logs/50% done"}
    assert problems(**folder) == []


def test_a_work_dir_may_have_any_name() -> None:
    assert problems(work_dir="/data/%u") == []


def test_a_backslash_in_the_logs_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMORUN_HOME", "/h/a\\b")
    assert "backslash" in problems()[0]
    assert problems(job_dir="/jobs") == []
    monkeypatch.setenv("NEMORUN_HOME", "/h")
    found = SlurmExecutor(transport=Cluster()).check([replace(TASK, name="b\\c")], title="d\\e")
    assert [problem.where for problem in found] == ["title", "task"]


def test_secrets_without_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = problems(secrets=["MY_TOKEN"])
    assert "MY_TOKEN has no value" in found
    assert "MY_TOKEN" in problems(tasks=[Task("a", "a", "shell", ("/a",), secrets=("MY_TOKEN",))])[0]
    assert problems(env_vars={"MY_TOKEN": "x"}) == []
    monkeypatch.setenv("MY_TOKEN", "x")
    assert problems(secrets=["MY_TOKEN"]) == []


def test_a_site_without_containers() -> None:
    (found,) = problems(container_image="/i.sqsh")
    assert "no pyxis" in found
    assert problems(Cluster(srun_help="  --container-image=[USER@]..."), container_image="/i.sqsh") == []


@pytest.mark.parametrize("folder", ["/data dir", "/a,b", "/a:b"])
def test_folders_that_pyxis_cannot_mount(folder: str) -> None:
    pyxis = Cluster(srun_help="--container-image")
    (found,) = problems(pyxis, container_image="/i.sqsh", cache_dir=folder)
    assert repr(folder) in found and "pyxis" in found
    assert problems(cache_dir=folder) == []


def test_everything_at_once() -> None:
    config = SlurmConfig(partition="general", sbatch_args=("--wait",), secrets=("NO_TOKEN",), job_dir="/x/%j")
    assert len(SlurmExecutor(config, transport=Cluster()).check([TASK])) == 4


# -- the shorthand ------------------------------------------------------------------------------------------------


def test_keywords_build_the_same_config() -> None:
    assert SlurmExecutor(account="x", nodes=2).config == SlurmExecutor(SlurmConfig(account="x", nodes=2)).config
    with pytest.raises(InputError, match="dataclasses.replace"):
        SlurmExecutor(SlurmConfig(account="x"), nodes=2)
    with pytest.raises(InputError, match="a LocalConfig is no SlurmConfig"):
        SlurmExecutor(LocalConfig())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "part"),
    [({"partion": "x"}, "partition"), ({"nodes": "two"}, "nodes"), ({"time": "0:240:0"}, "time")],
)
def test_wrong_keywords(fields: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        SlurmExecutor(**fields)


def test_a_wrong_config_is_told_with_all_other_problems() -> None:
    found = SlurmExecutor(SlurmConfig(mem="1G", mem_per_cpu="1G", sbatch_args=("--wait",)), transport=Cluster())
    texts = [str(problem) for problem in found.check([TASK])]
    assert len(texts) == 2 and "exclude each other" in texts[0]


def test_a_silent_machine_ends_the_request() -> None:
    class Silent(LocalTransport):
        def run(self, argv: Sequence[str], **_: Any) -> Completed:
            raise Unreachable("no answer")

    class Bare(LocalTransport):
        def run(self, argv: Sequence[str], **_: Any) -> Completed:
            raise CommandMissing("sh was not found")

    with pytest.raises(Unreachable, match="no answer"):
        problems(Silent(), partition="x")
    assert "not found" in problems(Bare())[0]


def test_the_title() -> None:
    assert SlurmExecutor().title == "SlurmExecutor on @localhost"
