"""GPU cluster presets: what slurm_type stands for, by whatever way it is given, and presets of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.config import presets
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.config.profiles import load as profiles
from nemo_launch.config.structure import check, structure
from nemo_launch.errors import InputError
from nemo_launch.executors import factory
from nemo_launch.executors.slurm import SlurmExecutor

MACHINES = {"gpus_per_node": 8, "ntasks_per_node": 8, "exclusive": True, "mem": "0"}
TYPES = ("hcc-a3m", "hcc-a3u", "hcc-a4", "hcc-a3h")


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The work dir; neither it nor the homes have presets yet."""
    for name in ("work", "runs", "me"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "runs"))
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def of(config: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(config, name) for name in names or MACHINES}


def problem(**fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        SlurmExecutor(**fields)
    return str(caught.value)


def test_the_types_of_the_guide_are_there() -> None:
    assert presets.names() == TYPES
    for name in TYPES:
        assert of(SlurmExecutor(slurm_type=name).config) == MACHINES


def test_every_way_to_ask_means_the_same(work: Path) -> None:
    (work / "profiles.yaml").write_text("big: {executor: slurm, slurm_type: hcc-a3m, nodes: 2}\n")
    asked: dict[str, Any] = {"slurm_type": "hcc-a3m", "nodes": 2}
    ways = [
        SlurmExecutor(SlurmConfig(**asked)).config,
        SlurmExecutor(**asked).config,
        structure(SlurmConfig, asked),
        structure(SlurmConfig, {"slurm_type": "hcc-a3m", "nodes": "2"}, from_text=True),
        factory.executor("big").config,
        factory.executor("slurm", **asked).config,
        check(SlurmConfig, profiles(work).resolve("big").values).config,
    ]
    assert all(config == ways[0] for config in ways)
    assert of(ways[0]) == MACHINES


@pytest.mark.parametrize(
    "given",
    [
        {"ntasks_per_node": 1},
        {"gpus_per_node": 0},
        {"exclusive": False},
        {"mem": "64G"},
        {"ntasks_per_node": 4, "gpus_per_node": 4, "exclusive": False, "mem": "100G"},
    ],
)
def test_what_is_given_wins_even_where_it_is_the_usual_default(given: dict[str, Any]) -> None:
    for executor in (
        SlurmExecutor(slurm_type="hcc-a4", **given),
        SlurmExecutor(SlurmConfig(slurm_type="hcc-a4", **given)),
    ):
        assert of(executor.config) == {**MACHINES, **given}
        again = factory.load(json.loads(json.dumps(factory.record(executor))))
        assert again.config == executor.config


def test_memory_given_in_another_way_takes_the_place_of_the_presets() -> None:
    config = SlurmExecutor(slurm_type="hcc-a3m", mem_per_gpu="100G").config
    assert of(config, "mem", "mem_per_gpu") == {"mem": None, "mem_per_gpu": "100G"}


def test_null_cannot_take_back_what_a_preset_says_in_silence() -> None:
    assert "mem: null does not take back what hcc-a3m says" in problem(slurm_type="hcc-a3m", mem=None)


def test_a_type_that_does_not_exist_is_told_with_the_nearest() -> None:
    found = problem(slurm_type="hcc-a3n", nodez=1)
    assert "slurm_type: there is no preset 'hcc-a3n'" in found and "hcc-a3m" in found and "nodez" in found
    config = SlurmConfig(slurm_type="hcc_a4")
    assert [p.where for p in SlurmExecutor(config).check([]) if "hcc-a4" in p.fix] == ["slurm_type"]


def test_the_network_is_for_several_nodes_and_can_be_chosen() -> None:
    def fabrics(**fields: Any) -> list[str]:
        words = presets.words(SlurmExecutor(**fields).config)
        return [word.partition("=")[2] for word in words if word.startswith("name=")]

    assert fabrics(slurm_type="hcc-a3m") == [] == fabrics(nodes=2)
    assert fabrics(slurm_type="hcc-a3m", nodes=2) == ["tcpxo"]
    assert fabrics(slurm_type="hcc-a3h", nodes=2) == ["tcpxo", "gib", "tcpx"]
    assert fabrics(slurm_type="hcc-a3h", nodes=2, fabric="tcpx") == ["tcpx"]
    assert "hcc-a3m has no fabric 'gib'. It has tcpxo." in problem(slurm_type="hcc-a3m", fabric="gib")
    assert "no effect without slurm_type" in problem(fabric="gib")


def test_a4_is_a3u_with_an_interface_more() -> None:
    a3u, a4 = (presets.words(SlurmConfig(slurm_type=name, nodes=2)) for name in ("hcc-a3u", "hcc-a4"))
    assert set(a3u) < set(a4)
    assert set(a4) - set(a3u) == {"env=GLOO_SOCKET_IFNAME=enp0s19"}


OWN = """\
lab:
  extends: hcc-a3m
  gpus_per_node: 4
  mem: null
  env_vars: {NCCL_DEBUG: WARN, MINE: preset}
cpu:
  cpus_per_task: 4
  multi_node:
    - {name: slow, directory: /opt/slow, env_vars: {NCCL_NET: Socket}}
"""


@pytest.mark.parametrize("place", ["work", "runs", "me/.config/nemo_launch"])
def test_users_have_presets_of_their_own(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / "presets.yaml").write_text(OWN)
    config = SlurmExecutor(slurm_type="lab", env_vars={"MINE": "given"}, nodes=2).config
    assert of(config) == {**MACHINES, "gpus_per_node": 4, "mem": None}
    assert config.env_vars == {"NCCL_DEBUG": "WARN", "MINE": "given"}
    assert "name=tcpxo" in presets.words(config)
    other = SlurmExecutor(slurm_type="cpu", nodes=2).config
    assert of(other, "cpus_per_task", "ntasks_per_node", "exclusive") == {
        "cpus_per_task": 4, "ntasks_per_node": 1, "exclusive": None,
    }  # fmt: skip
    assert presets.words(other) == ("directory=/opt/slow", "name=slow", "env=NCCL_NET=Socket")
    assert presets.names()[:2] == ("lab", "cpu")
    assert "Did you mean lab?" in problem(slurm_type="lob")


def test_the_work_dir_is_the_runs_own(work: Path, tmp_path: Path) -> None:
    (tmp_path / "runs" / "presets.yaml").write_text("lab: {gpus_per_node: 1}")
    (work / "presets.yaml").write_text("lab: {gpus_per_node: 2}")
    assert SlurmExecutor(slurm_type="lab").config.gpus_per_node == 2
    assert SlurmExecutor(slurm_type="lab", work_dir=str(tmp_path)).config.gpus_per_node == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lab: {partition: a3m}", "presets.yaml:1 (preset lab): partition: a preset describes machines"),
        ("lab: {gpus_per_nod: 1}", "Did you mean gpus_per_node?"),
        ("lab: {gpus_per_node: two}", "'two' is not a whole number"),
        ("lab: {mem: 1G, mem_per_cpu: 1G}", "exclude each other"),
        ("lab: {extends: hcc-a3n}", "there is no preset 'hcc-a3n'"),
        ("lab: {extends: lab}", "in a circle: lab -> lab"),
        ("lab: {extends: [a]}", "not one preset's name"),
        ("lab: 3", "preset lab is not a mapping"),
        ("lab: {multi_node: gib}", "not a list of fabrics"),
        ("lab: {multi_node: [{name: x}]}", "a fabric needs directory"),
        ("lab: {multi_node: [{name: x, directory: a}]}", "not an absolute path"),
        ("lab: {multi_node: [{name: x, directory: /a, mount: []}]}", "Did you mean mounts?"),
        ("lab: {multi_node: [{name: x, directory: /a, mounts: ['/a b']}]}", "cannot be mounted"),
        ("lab: {multi_node: [{name: x, directory: /a, env_vars: [A]}]}", "not a mapping of names to text"),
        ("lab: {", "presets.yaml"),
    ],
)
def test_a_preset_that_is_wrong_is_refused_with_its_place(work: Path, text: str, told: str) -> None:
    (work / "presets.yaml").write_text(text)
    assert told in problem(slurm_type="lab")


def test_which_values_are_the_presets_is_recorded_and_shown() -> None:
    executor = SlurmExecutor(slurm_type="hcc-a3m", nodes=2, mem="64G")
    preset = factory.record(executor)["preset"]
    assert preset["fields"] == {"gpus_per_node": 8, "ntasks_per_node": 8, "exclusive": True}
    assert (preset["name"], preset["fabrics"]) == ("hcc-a3m", ["tcpxo"])
    assert "preset" not in factory.record(SlurmExecutor(nodes=2))


def test_an_experiment_is_read_although_its_preset_is_gone(work: Path) -> None:
    (work / "presets.yaml").write_text("lab: {gpus_per_node: 2}")
    record = factory.record(SlurmExecutor(slurm_type="lab"))
    (work / "presets.yaml").unlink()
    assert of(factory.load(record).config, "gpus_per_node") == {"gpus_per_node": 2}
