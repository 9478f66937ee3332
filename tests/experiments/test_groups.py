"""Groups: several commands in one job, and how it ends."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import Experiment, LocalExecutor, Script, SlurmExecutor
from nemo_launch.errors import InputError
from nemo_launch.executors.base import Plan
from nemo_launch.executors.slurm.facts import Facts
from nemo_launch.experiments.observing import TaskStatus

#: Ends when it is asked to, and says so.
SERVER = "trap 'echo saved; exit 0' TERM; touch up; echo up; while :; do sleep 0.1; done"
#: Waits until it is there.
CLIENT = "while [ ! -e up ]; do sleep 0.1; done; "


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "runs"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def script(name: str, text: str) -> Script:
    Path(f"{name}.sh").write_text(text + "\n")
    return Script(f"{name}.sh")


def ended(texts: dict[str, str], **how: Any) -> tuple[TaskStatus, str]:
    """The one task of an experiment, and its log."""
    with Experiment("demo", executor=LocalExecutor()) as experiment:
        assert experiment.add([script(*pair) for pair in texts.items()], name="both", **how) == "both"
        experiment.run(detach=True)
        (status,) = experiment.wait(timeout=120)
        assert status.observation.state.final, status
        log = Path(status.job.paths.log(str(status.job.handle))).read_text()
    return status, log


@pytest.mark.parametrize(
    ("policy", "texts", "code", "told"),
    [
        # one ends well early, another fails later: never lost
        ("fail-fast", {"a": "exit 0", "b": "sleep 1; exit 7"}, 7, "b failed first: exit code 7"),
        ("wait-all", {"a": "exit 0", "b": "sleep 1; exit 7"}, 7, "b failed first: exit code 7"),
        ("leader", {"a": "sleep 300", "b": "sleep 1; exit 7"}, 7, "b failed first: exit code 7"),
        ("leader", {"a": CLIENT + "exit 5", "b": SERVER}, 5, "a failed first: exit code 5"),
        ("fail-fast", {"a": CLIENT + "exit 3", "b": SERVER}, 3, "a failed first: exit code 3"),
        # all is well
        ("fail-fast", {"a": "sleep 1", "b": "exit 0"}, 0, ""),
        ("wait-all", {"a": "sleep 1", "b": "exit 0"}, 0, ""),
        ("leader", {"a": CLIENT + "exit 0", "b": SERVER}, 0, ""),
        ("leader", {"a": "sleep 1", "b": "exit 0"}, 0, ""),
    ],
)
def test_the_policy_says_how_it_ends(policy: str, texts: dict[str, str], code: int, told: str) -> None:
    status, log = ended(texts, policy=policy)
    seen = status.observation
    assert (seen.state, seen.exit_code) == ("FAILED" if code else "SUCCEEDED", code), log
    assert seen.reason == told
    for name, text in texts.items():
        assert f"nemo_launch: {name} ended with exit code " in log
        if text is SERVER:
            assert f"[{name}] saved\n" in log


def test_the_others_go_on_after_a_failure_where_all_are_waited_for() -> None:
    status, log = ended({"a": "exit 7", "b": "sleep 2; echo done"}, policy="wait-all")
    assert "[b] done\n" in log
    assert status.observation.exit_code == 7


def test_each_command_has_an_executor_a_folder_and_a_log_of_its_own() -> None:
    executors = [LocalExecutor(env_vars={"WHO": "it's a"}), LocalExecutor(env_vars={"WHO": "b\nb"})]
    texts = dict.fromkeys("ab", 'printf "%s|" "$WHO"; echo "$MASTER_PORT $NEMO_LAUNCH_EXPERIMENT $NEMO_LAUNCH_TASK"')
    status, log = ended(texts, executor=executors)
    folder = Path(status.job.paths.dir)
    experiment = folder.parent.name
    assert f"[a] it's a|13742 {experiment} a\n" in log
    assert f"[b] b\n[b] b|13742 {experiment} b\n" in log
    assert (folder / "a" / f"{status.job.handle}.log").read_text() == f"it's a|13742 {experiment} a\n"
    assert json.loads((folder / "b" / f"exit-{status.job.handle}-0.json").read_text())["exit_code"] == 0
    recorded = json.loads((folder / "task.json").read_text())
    assert "members" in json.dumps(recorded)


def test_cancel_ends_all_of_them() -> None:
    with Experiment("demo", executor=LocalExecutor()) as experiment:
        experiment.add([script("a", SERVER), script("b", SERVER)], name="both")
        experiment.run(detach=True)
        log = Path(experiment.jobs()[0][0].paths.log(str(experiment.jobs()[0][0].handle)))
        deadline = time.monotonic() + 60
        while not (log.exists() and "[a] up" in log.read_text() and "[b] up" in log.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (status,) = experiment.cancel()
    assert status.observation.state == "CANCELLED"
    assert "[a] saved\n" in log.read_text() and "[b] saved\n" in log.read_text()


def refused(recipes: list[Script], **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        experiment = Experiment("demo")
        experiment.add(recipes, **how)
        experiment.plan()
    return str(caught.value)


def test_what_cannot_be_a_group_is_refused() -> None:
    a, b = script("a", "true"), script("b", "true")
    assert "a group needs recipes" in refused([])
    assert "2 recipes and 3 executors" in refused([a, b], executor=[LocalExecutor()] * 3)
    assert "Did you mean leader?" in refused([a, b], policy="leeder")
    assert "one kind" in refused([a, b], executor=[LocalExecutor(), SlurmExecutor()])
    assert "2 recipes and 0 executors" in refused([a, b], executor=[])
    differ = [SlurmExecutor(job_dir="/x"), SlurmExecutor(max_restarts=3, resume_on="timeout")]
    for word in (
        "job_dir is the job's (the job has one folder)",
        "resume_on",
        "max_restarts",
        "Did you mean wait-all?",
    ):
        assert word in refused([a, b], executor=differ, policy="wait-al")
    assert "time is the job's (one supervisor ends them)" in refused(
        [a, b], executor=[LocalExecutor(), LocalExecutor(time="1:00")]
    )
    with pytest.raises(InputError, match="for groups"):
        Experiment("demo").add(a, policy="leader")


def test_what_sbatch_cannot_do_with_parts_is_refused() -> None:
    a, b = script("a", "true"), script("b", "true")
    one, other = SlurmExecutor(partition="x", qos="high", mem="1G"), SlurmExecutor(partition="y", mem_per_cpu="1G")
    said = refused([a, b], executor=[one, other])
    assert "qos is set for one part" in said and "mem is set for one part" in said
    with_all = [SlurmExecutor(partition="x"), SlurmExecutor(partition="y", qos="high")]
    Experiment("demo").add([a, b], executor=with_all)  # those without come first
    differ = [SlurmExecutor(partition=name, dependency="afterok:7,singleton") for name in "xy"]
    assert "wait for each other" in refused([a, b], executor=differ)
    Experiment("demo").add([a, b], executor=differ[0])


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster is asked."""
    monkeypatch.setattr(SlurmExecutor, "check", lambda *_: [])
    monkeypatch.setattr(Facts, "accounting_shows_environment", False)


def planned(*executors: SlurmExecutor) -> Plan:
    """Of scripts a, b, …"""
    experiment = Experiment("demo")
    experiment.add([script(name, "true") for name, _ in zip("abc", executors, strict=False)], executor=list(executors))
    (plan,) = experiment.plan()
    return plan


def directives(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_on_slurm_what_asks_for_other_resources_is_a_part_of_its_own(unasked: None) -> None:
    plan = planned(
        SlurmExecutor(partition="cpu", account="a", mem="4G", time="10:00", ntasks_per_node=2),
        SlurmExecutor(partition="gpu", account="b", mem="0", time="5:00", nodes=4, gpus_per_node=8, exclusive=True),
        SlurmExecutor(
            partition="cpu", account="a", mem="4G", time="10:00", ntasks_per_node=3, container_image="/i.sqsh"
        ),
    )
    found = directives(plan.script)
    at = found.index("hetjob")
    assert found.count("hetjob") == 1
    first = ["--nodes=1", "--ntasks-per-node=3", "--mem=4G", "--time=00:10:00", "--account=a", "--partition=cpu"]
    assert [word for word in first if word not in found[:at]] == []
    assert found[at + 1 :] == [
        "--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=8", "--mem=0", "--time=00:05:00", "--account=b",
        "--partition=gpu", "--exclusive",
    ]  # fmt: skip
    assert "a:0:NEMO_LAUNCH_HOSTS_A b:1:NEMO_LAUNCH_HOSTS_B c:0:NEMO_LAUNCH_HOSTS_C )" in plan.script
    groups = [
        f"nl_het_group={number}\n" in plan.files[f"{name}/job.sh"].decode()
        for name, number in zip("abc", "010", strict=True)
    ]
    assert groups == [True] * 3
    assert "nl_group=het\n" in plan.script


def test_a_sites_default_reaches_the_parts_that_it_is_meant_for(unasked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "site")
    plan = planned(SlurmExecutor(nodes=2), SlurmExecutor(partition="mine"))
    found = directives(plan.script)
    at = found.index("hetjob")
    assert "--partition=site" in found[:at] and "--partition=mine" in found[at:]
    assert "SBATCH_PARTITION" not in plan.env


def test_on_slurm_commands_with_the_same_resources_share_their_nodes(unasked: None) -> None:
    plan = planned(
        SlurmExecutor(nodes=4, gpus_per_node=8, container_image="/i.sqsh", env_vars={"A": "1"}),
        SlurmExecutor(nodes=4, gpus_per_node=8, ntasks_per_node=2),
    )
    head, a, b = plan.script, plan.files["a/job.sh"].decode(), plan.files["b/job.sh"].decode()
    for option in ("--nodes=4", "--ntasks-per-node=2", "--gpus-per-node=8"):
        assert f"#SBATCH {option}\n" in head
    assert "hetjob" not in head and "nl_group=plain\n" in head
    assert "--container-image=/i.sqsh" in a and "=/i.sqsh" not in head + b
    assert "nl_nodes=4\n" in b and "nl_launcher=srun\n" in b and "--overlap" in b
    assert plan.files["a/environment"].startswith(b"A=1\0") and plan.files["b/environment"] == b""
