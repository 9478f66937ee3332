"""The table of flags and the fields they set."""

from __future__ import annotations

from nemo_launch.cli.flags import FLAGS
from nemo_launch.cli.parser import known_flags, split_launch
from nemo_launch.config.executor import LocalConfig, SlurmConfig, field_names

FIELDS = {*field_names(LocalConfig), *field_names(SlurmConfig)}


def test_every_field_that_a_flag_names_exists() -> None:
    assert {flag.field for flag in FLAGS if flag.field} <= FIELDS


def test_no_flag_is_given_twice() -> None:
    assert len(known_flags()) == len(set(known_flags()))


def test_words_for_the_script_keep_their_order_around_flags() -> None:
    flags, words, unknown = split_launch("run.py", ["a=1", "-n", "2", "", "-s", "x", "b", "-5", "--", "-e", "--", "c"])
    assert (flags.nodes, flags.script) == ("2", "x")
    assert words == ["a=1", "", "b", "-5", "-e", "--", "c"]
    assert unknown == []


def test_flags_are_never_abbreviated() -> None:
    _, _, unknown = split_launch("run.py", ["-s", "x", "--exec", "slurm"])
    assert unknown == ["--exec"]


def test_values_may_be_glued_to_their_flags() -> None:
    flags, *_ = split_launch("run.py", ["-n2", "--srun-arg=--mpi=pmix", "--srun-arg=-l", "--env", "A=b=c"])
    assert (flags.nodes, flags.srun_arg, flags.env) == ("2", ["--mpi=pmix", "-l"], ["A=b=c"])
