"""Executors by word, by profile and from records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_launch.config.durations import Duration
from nemo_launch.config.executor import CONFIGS, LocalConfig
from nemo_launch.errors import InputError, NotFound, RecordError
from nemo_launch.executors import factory


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work dir, a home and a NEMORUN_HOME without profiles."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "runs"))
    return tmp_path


def test_every_kind_has_a_config_and_a_class() -> None:
    assert list(factory.KINDS) == list(CONFIGS)
    for kind in factory.KINDS:
        made = factory.make(kind, {})
        assert (made.kind, type(made.config)) == (kind, CONFIGS[kind])


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"there is no executor 'slrum'. Did you mean slurm\?"):
        factory.make("slrum", {})


def test_by_kind_with_fields() -> None:
    made = factory.executor("local", ntasks_per_node=2, time="10")
    assert made.config == LocalConfig(ntasks_per_node=2, time=Duration(600))
    with pytest.raises(InputError, match=r"executor\('local'\): nodes: nodes is for slurm"):
        factory.executor("local", nodes=2)


def test_by_profile_whose_fields_are_overridden(nowhere: Path) -> None:
    (nowhere / "profiles.yaml").write_text("two: {executor: local, ntasks_per_node: 2, env_vars: {A: 1, B: 1}}\n")
    made = factory.executor("two", env_vars={"B": "2"}, max_parallel=1)
    assert made.config == LocalConfig(ntasks_per_node=2, max_parallel=1, env_vars={"A": "1", "B": "2"})
    with pytest.raises(InputError) as caught:
        factory.executor("two", ntasks_per_node=0)
    assert str(caught.value) == "executor('two'): ntasks_per_node: 0 is less than 1"
    with pytest.raises(NotFound, match="there is no profile twoo.*Did you mean two?"):
        factory.executor("twoo")


def test_a_record_is_read_back_as_an_equal_executor() -> None:
    made = factory.make("local", {"ntasks_per_node": 2, "time": "10", "env_vars": {"A": "é\n"}})
    record = json.loads(json.dumps(factory.record(made)))
    assert record == {"kind": "local", "config": {"ntasks_per_node": 2, "time": "00:10:00", "env_vars": {"A": "é\n"}}}
    again = factory.load(record)
    assert (again.kind, again.config) == ("local", made.config)


def test_no_record_holds_the_value_of_a_secret() -> None:
    record = factory.record(factory.make("local", {"env_vars": {"MY_TOKEN": "s3cr3t", "A": "1"}}))
    assert record == {"kind": "local", "config": {"env_vars": {"A": "1"}, "secrets": ["MY_TOKEN"]}}


@pytest.mark.parametrize(
    "record",
    [{}, {"kind": "moon", "config": {}}, {"kind": "local"}, {"kind": "local", "config": {"later": 1}}, {"kind": []}],
)
def test_a_record_of_another_version_is_a_record_error(record: dict[str, object]) -> None:
    with pytest.raises(RecordError):
        print(factory.load(record).config)


def test_a_record_is_read_even_where_a_rule_has_become_stricter() -> None:
    assert factory.load({"kind": "local", "config": {"work_dir": "relative"}}).config.work_dir == "relative"
