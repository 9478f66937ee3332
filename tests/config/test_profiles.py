"""profiles.yaml: found, extended, checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nemo_launch.config.layers import merge
from nemo_launch.config.profiles import Profiles, load
from nemo_launch.errors import InputError, NotFound


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The three folders where profiles.yaml may lie."""
    folders = {"work": tmp_path / "work", "home": tmp_path / "runs", "user": tmp_path / "me/.config/nemo_launch"}
    for folder in folders.values():
        folder.mkdir(parents=True)
    monkeypatch.setenv("NEMORUN_HOME", str(folders["home"]))
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    return folders


def write(folder: Path, text: str) -> Path:
    file = folder / "profiles.yaml"
    file.write_text(text)
    return file


BASE = """\
cluster:
  executor: slurm
  account: a1
  partition: a3m
  secrets: [HF_TOKEN, A]
  env_vars: {NCCL_DEBUG: INFO, A: 1.10}
big:
  extends: cluster
  nodes: 8
  partition: a3u
  secrets: [B]
  env_vars: {A: 2}
"""


def problem(profiles: Profiles, name: str) -> str:
    with pytest.raises(InputError) as caught:
        profiles.resolve(name)
    return str(caught.value)


def test_a_profile_has_the_fields_of_what_it_extends(places: dict[str, Path]) -> None:
    file = write(places["work"], BASE)
    profile = load(places["work"]).resolve("big")
    assert profile.kind == "slurm"
    assert profile.values == {
        "account": "a1",
        "partition": "a3u",
        "nodes": 8,
        "secrets": ["B"],  # lists are replaced
        "env_vars": {"NCCL_DEBUG": "INFO", "A": "2"},  # mappings are merged
    }
    assert profile.origin["account"] == f"{file}:3 (profile cluster): account"
    assert profile.origin["partition"] == f"{file}:10 (profile big): partition"
    assert merge([profile.layer]).values == profile.values


def test_the_first_file_that_has_the_name_wins(places: dict[str, Path]) -> None:
    write(places["work"], "a: {executor: local, ntasks_per_node: 1}")
    write(places["home"], "a: {executor: slurm}\nb: {executor: local, ntasks_per_node: 2}")
    write(places["user"], "b: {executor: slurm}\nc: {extends: a}")
    profiles = load(places["work"])
    assert [(name, profiles.resolve(name).kind) for name in profiles.names()] == [
        ("a", "local"),
        ("b", "local"),
        ("c", "local"),
    ]
    assert profiles.resolve("c").values == {"ntasks_per_node": 1}


def test_a_name_that_is_nowhere(places: dict[str, Path]) -> None:
    profiles = load(places["work"])
    with pytest.raises(NotFound) as caught:
        profiles.resolve("big")
    for folder in places.values():
        assert str(folder / "profiles.yaml") in str(caught.value)
    first, last = write(places["work"], BASE), write(places["user"], "mine: {executor: local}")
    text = problem(load(places["work"]), "bigg")
    assert "there is no profile bigg" in text
    assert str(first) in text and str(last) in text
    assert "Did you mean big?" in text
    assert "The profiles are cluster, big, mine." in problem(load(places["work"]), "zzz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {extends: b}\nb: {extends: c}\nc: {extends: b}", ":3: profiles extend each other in a circle: b -> c"),
        ("a: {extends: a}", ":1: profiles extend each other in a circle: a -> a"),
        ("a: {extends: clutser}\ncluster: {executor: slurm}", ":1: there is no profile clutser"),
        ("a: {extends: [b]}", ":1: extends of profile a is not one profile's name"),
        ("a: {extends: slurm}", "Write `executor: slurm` instead."),
        ("a:\n  nodes: 2\n", ":1: profile a names no executor"),
        ("a: {executor: slrum}", "there is no executor 'slrum'. Did you mean slurm?"),
        ("a: {executor: [slurm]}", "there is no executor ['slurm']. Did you mean slurm?"),
        ("a:\n", ":1: profile a is not a mapping of fields"),
        ("a: slurm\n", ":1: profile a is not a mapping of fields"),
        ("a: {executor: slurm}\na: {executor: local}\n", ":2: a stands twice, first in line 1"),
        ("a: {executor: slurm}\n1: {executor: local}\n", "the profile name 1 is not text"),
    ],
)  # fmt: skip
def test_profiles_that_cannot_be(places: dict[str, Path], text: str, message: str) -> None:
    file = write(places["work"], text)
    said = problem(load(places["work"]), "a")
    assert message in said
    assert str(file) in said


def test_no_profile_takes_the_name_of_a_kind(places: dict[str, Path]) -> None:
    write(places["work"], "slurm: {executor: slurm}")
    assert "no profile may be called slurm" in problem(load(places["work"]), "slurm")


def test_all_profiles_are_checked_with_file_line_profile_and_key(places: dict[str, Path]) -> None:
    file = write(places["work"], BASE + "bad:\n  extends: big\n  nods: 2\n  time: soon\nworse: {extends: none}\n")
    reports = {report.name: report for report in load(places["work"]).check_all()}
    assert {name: (report.kind, len(report.problems)) for name, report in reports.items()} == {
        "cluster": ("slurm", 0),
        "big": ("slurm", 0),
        "bad": ("slurm", 2),
        "worse": ("", 1),
    }
    unknown, time = map(str, reports["bad"].problems)
    assert unknown == f"{file}:15 (profile bad): nods: slurm has no field nods. Did you mean nodes?"
    assert time.startswith(f"{file}:16 (profile bad): time: 'soon' is not a duration")


def test_yaml_is_not_even_imported_where_there_is_no_file(places: dict[str, Path]) -> None:
    code = (
        "import sys; from nemo_launch.config.profiles import load\n"
        f"print(load({str(places['work'])!r}).names(), 'yaml' in sys.modules, 'cattrs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "() False False\n"
