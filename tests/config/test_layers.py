"""Values of several origins: later ones win, and errors say where the winner was given."""

from __future__ import annotations

import pytest

from nemo_launch.config.executor import LocalConfig, SlurmConfig
from nemo_launch.config.layers import Layer, merge, script_block
from nemo_launch.config.structure import structure
from nemo_launch.errors import InputError


def test_later_layers_win_and_each_value_keeps_its_place() -> None:
    merged = merge(
        [
            Layer("train.py [tool.nemo-launch]", {"nodes": 1, "time": "10"}),
            Layer(lambda key: f"profiles.yaml:12 (profile big): {key}", {"nodes": 2, "partition": "a3m"}),
            Layer(lambda key: f"--{key}", {"nodes": "4"}),
        ]
    )
    assert merged.values == {"nodes": "4", "time": "10", "partition": "a3m"}
    assert merged.origin == {
        "nodes": "--nodes",
        "time": "train.py [tool.nemo-launch]: time",
        "partition": "profiles.yaml:12 (profile big): partition",
    }


def test_a_null_in_a_later_layer_takes_a_value_away() -> None:
    assert merge([Layer("a", {"partition": "x"}), Layer("b", {"partition": None})]).values == {"partition": None}


def test_env_vars_are_merged_by_name() -> None:
    layers = [Layer("a", {"env_vars": {"A": "1", "B": "1"}}), Layer("b", {"env_vars": {"B": "2"}})]
    assert merge(layers).values == {"env_vars": {"A": "1", "B": "2"}}


def test_lists_replace_unless_the_layer_adds() -> None:
    below = Layer("a", {"secrets": ["A"]})
    assert merge([below, Layer("b", {"secrets": ["B"]})]).values == {"secrets": ["B"]}
    assert merge([below, Layer("b", {"secrets": ["B"]}, adds=True)]).values == {"secrets": ["A", "B"]}
    assert below.values == {"secrets": ["A"]}


def test_errors_name_the_place_of_the_value_that_won() -> None:
    merged = merge([Layer("f.yaml", {"nodes": 1, "nods": 1}), Layer(lambda key: f"--{key}", {"nodes": "x"})])
    with pytest.raises(InputError) as caught:
        structure(SlurmConfig, merged.values, merged.place, from_text={"nodes"})
    assert [problem.where for problem in caught.value.problems] == ["f.yaml: nods", "--nodes"]


def test_a_rule_about_two_values_names_the_one_that_was_given() -> None:
    merged = merge([Layer("f.yaml", {"mem_per_cpu": "1G"}), Layer(lambda key: f"--{key}", {"mem": "2G"})])
    with pytest.raises(InputError, match="f.yaml: mem_per_cpu: mem and mem_per_cpu exclude each other"):
        structure(SlurmConfig, merged.values, merged.place)


def test_a_script_block_serves_whatever_executor_runs_it() -> None:
    block = {"nodes": 2, "ntasks_per_node": 2, "container_image": "x.sqsh", "launcher": "srun", "time": "10"}
    assert script_block(SlurmConfig, block) == (block, [])
    assert script_block(LocalConfig, block) == (
        {"ntasks_per_node": 2, "time": "10"},
        ["nodes", "container_image", "launcher"],
    )


def test_what_no_executor_knows_in_a_script_block_stays_an_error() -> None:
    values, skipped = script_block(LocalConfig, {"nods": 2, "launcher": "mpirun"})
    assert (values, skipped) == ({"nods": 2, "launcher": "mpirun"}, [])
    with pytest.raises(InputError, match="nods"):
        structure(LocalConfig, values)
