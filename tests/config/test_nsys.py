"""What the fields of nsys may hold, and what becomes of them on its command line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_launch.config import nsys
from nemo_launch.config.executor import LocalConfig, SlurmConfig
from nemo_launch.config.rules import validate, without_effect

ON = SlurmConfig(nsys_enabled=True)


def said(**fields: object) -> list[str]:
    return [str(problem) for problem in validate(replace(ON, **fields))]  # type: ignore[arg-type]


def test_options_are_one_word_each_and_the_user_s_own_stand_for_ours() -> None:
    made = nsys.words(replace(ON, nsys_args=("--sample=cpu", "--duration=60")))
    assert made == (
        "--trace=cuda,nvtx", "--kill=none", "--force-overwrite=true", "--sample=cpu", "--duration=60",
    )  # fmt: skip
    assert nsys.words(SlurmConfig()) == ()


def test_a_range_ends_without_ending_the_program() -> None:
    made = nsys.words(replace(ON, nsys_capture_range="nvtx"))
    assert made[-2:] == ("--capture-range=nvtx", "--capture-range-end=stop")


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"nsys_trace": "cuda, nvtx"}, "cuda,nvtx,osrt"),
        ({"nsys_capture_range_end": "repeat:0"}, "repeat:N"),
        ({"nsys_args": ("-o",)}, "Use nsys_output instead"),
        ({"nsys_args": ("--trace=osrt",)}, "Use nsys_trace instead"),
        ({"nsys_args": ("-s",)}, "its long name"),
        ({"nsys_args": ("--",)}, "is not an option of nsys profile"),
        ({"nsys_args": ("python",)}, "is not an option of nsys profile"),
        ({"nsys_ranks": (0, 2)}, "there is no rank 2"),
        ({"nsys_ranks": (-1,)}, "there is no rank -1"),
        ({"nodes": 2, "nsys_output": "prof"}, "Add %h or %p to it, or write prof/"),
        ({"ntasks_per_node": 2, "nsys_ranks": (0, 1), "nsys_output": "prof"}, "overwrite each other"),
    ],
)
def test_what_cannot_work_is_refused_with_what_helps(fields: dict[str, object], part: str) -> None:
    (problem,) = said(**fields)
    assert part in problem


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": 2, "nsys_output": "prof-%h"},
        {"nodes": 2, "nsys_output": "prof/"},
        {"nodes": 2, "nsys_ranks": (1,), "nsys_output": "prof"},
        {"nsys_output": "prof"},
        {"nsys_capture_range": "nvtx", "nsys_capture_range_end": "repeat-shutdown:3"},
    ],
)
def test_what_can_work_is_taken(fields: dict[str, object]) -> None:
    assert said(**fields) == []


def test_an_option_without_profiling_is_told() -> None:
    assert without_effect(LocalConfig(nsys_trace="osrt")) == ["nsys_trace has no effect without nsys_enabled"]
    (line,) = without_effect(replace(ON, nsys_capture_range_end="stop"))
    assert line == "nsys_capture_range_end has no effect without nsys_capture_range"


def test_the_launcher_says_what_profiling_costs() -> None:
    (note,) = nsys.notes(ON, "/runs/demo")
    assert "slows the training" in note
    assert "one .nsys-rep for each node in /runs/demo" in note
