"""The short way to a config agrees with the library, and is taken for what is read back from a record."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nemo_launch.config.converter import Text, converter
from nemo_launch.config.durations import Duration
from nemo_launch.config.exact import exact
from nemo_launch.config.executor import Default, LocalConfig, SlurmConfig
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.resume import ResumeOn
from nemo_launch.config.structure import unstructure

WORDS = st.sampled_from(
    ["", "a b", "1", "-1", "01", "true", "torchrun", "srun", "none", "1:00:00", "2-12", "0:240:0", "timeout", "error:1"]
    + ["/a", "/a:/b:ro", "rel:/x", "never", "é", "9" * 25]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 100000),
    st.just(Default(1)),
    st.floats(allow_nan=False),
    WORDS,
    WORDS.map(Text),
    st.sampled_from([Duration(60), VolumeMapping("/a", "/b"), ResumeOn(("timeout",)), 2**70, b"x"]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.lists(SCALARS, max_size=3).map(tuple),
    st.dictionaries(WORDS, SCALARS, max_size=2),
)


@pytest.mark.parametrize("cls", [SlurmConfig, LocalConfig])
@given(st.data())
def test_it_says_what_the_library_says_or_nothing(cls: type[Any], data: st.DataObject) -> None:
    names = [field.name for field in fields(cls)]
    values = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=3))
    quick = exact(cls, values)
    if quick is None:
        return
    slow = converter().structure(values, cls)
    assert quick == slow
    for name in names:
        assert type(getattr(quick, name)) is type(getattr(slow, name)), name


@given(WORDS)
@example("1:00:00")
def test_every_field_of_a_record_goes_the_short_way(word: str) -> None:
    config = SlurmConfig(
        nodes=2,
        ntasks_per_node=3,
        time=Duration(3600),
        resume_on=ResumeOn(("timeout",)),
        launcher="srun",
        exclusive=False,
        snapshot=False,
        partition=word,
        secrets=("A", word),
        env_vars={"A": word},
        container_mounts=(VolumeMapping("/a", "/b", "ro"), VolumeMapping("/c", "/c")),
    )
    values = json.loads(json.dumps(unstructure(config)))
    assert exact(SlurmConfig, values) == config


def test_a_new_kind_of_field_is_known_here() -> None:
    for cls in (SlurmConfig, LocalConfig):
        assert exact(cls, vars(cls())) == cls()
