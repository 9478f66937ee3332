"""One duration type: Slurm's forms in, one normal form out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_launch.config.durations import Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600),
        ("4:00", 240),
        ("90:30", 90 * 60 + 30),
        ("1:00:00", 3600),
        ("100:00:00", 360000),
        ("2-12", 60 * 3600),
        ("0-1", 3600),
        ("1-02:30", 26 * 3600 + 1800),
        ("1-02:03:04", 93784),
        (" 10 ", 600),
    ],
)
def test_all_forms_of_slurm_are_read_as_slurm_reads_them(text: str, seconds: int) -> None:
    assert Duration.parse(text) == Duration(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0:00", "0:240:0", "1:60:00", "1:00:60", "4:60", "1-24", "1-0:60", "-5", "1-", "1:2:3:4", "1-1:2:3:4",
     "1.5", "10m", "1h", "UNLIMITED", "١٠", "1 0", "1:", ":1", "9" * 5000, "10\n1"],
)  # fmt: skip
def test_anything_else_is_refused_and_the_forms_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; valid forms: .*D-HH:MM:SS"):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("number", "guess"), [(43200, '"12:00:00"'), (5400, '"1:30:00"'), (240, '"4:00" or "240"'), (10, '"10"')]
)
def test_a_bare_number_of_yaml_is_refused_with_what_was_probably_typed(number: int, guess: str) -> None:
    with pytest.raises(ValueError, match=f"quote it, as in {guess}"):
        Duration.parse(number)


@pytest.mark.parametrize(
    "value", [None, True, 0, -5, 1.5, [], timedelta(0), timedelta(seconds=-1), timedelta(seconds=1.5)]
)
def test_no_other_type_is_a_duration(value: object) -> None:
    with pytest.raises(ValueError):
        Duration.parse(value)


@given(st.integers(min_value=1, max_value=9_999_999 * 86400))
def test_the_normal_form_is_read_back_as_the_same_length(seconds: int) -> None:
    duration = Duration(seconds)
    assert Duration.parse(str(duration)) == duration == Duration.parse(duration.timedelta)


@given(days=st.integers(0, 99), hours=st.integers(0, 23), minutes=st.integers(0, 59), seconds=st.integers(1, 59))
def test_days_hours_minutes_and_seconds_add_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert Duration.parse(f"{days}-{hours}:{minutes}:{seconds}").timedelta == length
    assert Duration.parse(f"{days * 24 + hours}:{minutes:02d}:{seconds:02d}").timedelta == length


@given(st.integers(1, 59), st.integers(1, 59))
def test_longer_is_greater(a: int, b: int) -> None:
    assert (Duration.parse(f"{a}:00") < Duration.parse(f"{b}:00")) == (a < b)
