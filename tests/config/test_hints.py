"""Nearest known names."""

from __future__ import annotations

import pytest

from nemo_launch.config.hints import did_you_mean, nearest

KNOWN = ("nodes", "ntasks_per_node", "partition", "mem", "mem_per_cpu")


@pytest.mark.parametrize(
    ("word", "name"),
    [("nods", "nodes"), ("Nodes", "nodes"), ("ntasks-per-node", "ntasks_per_node"), ("memory", "mem"), ("zzz", None)],
)
def test_the_nearest_name(word: str, name: str | None) -> None:
    assert nearest(word, KNOWN) == name


def test_the_sentence_or_nothing() -> None:
    assert did_you_mean("partitoin", KNOWN) == "Did you mean partition?"
    assert did_you_mean("zzz", KNOWN) == did_you_mean("", KNOWN) == did_you_mean("x", ()) == ""
