"""Patterns match what glob says, with one look at each folder."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_launch import globs

NAMES = [
    "started-4-0.json",
    "started-4-1.json",
    "exit-4-0.json",
    "started-42-0.json",
    ".hidden",
    "a[b]*",
    "-",
    "[",
    "*",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    top = tmp_path_factory.mktemp("globs")
    for name in ("plain", "with [x]* in it"):
        (top / name / "ranks-4-0").mkdir(parents=True)
        (top / name / "ranks-4-0" / "first-failure.json").touch()
        for file in NAMES:
            (top / name / file).touch()
    return str(top)


@pytest.mark.parametrize("task", ["plain", "with [x]* in it", "not there"])
@pytest.mark.parametrize(
    "name",
    [
        "started-4-*.json",
        "exit-*-*.json",
        "*",
        "*.json",
        "st?rted-*",
        "[se]*",
        "ranks-4-*/first-failure.json",
        "a[[]b]*",
    ],
)
def test_like_glob(folder: str, task: str, name: str) -> None:
    pattern = os.path.join(glob.escape(os.path.join(folder, task)), name)
    there = {path for path in globs.matching([pattern]) if os.path.lexists(path)}
    assert there == set(glob.glob(pattern))


@given(st.text(alphabet="a*?[]-.4", min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_like_glob_whatever_the_pattern(folder: str, pattern: str) -> None:
    whole = os.path.join(glob.escape(os.path.join(folder, "plain")), pattern)
    there = {path for path in globs.matching([whole]) if os.path.lexists(path)}
    assert there == set(glob.glob(whole))


def test_a_folder_is_listed_once(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    real = os.listdir

    def listdir(path: str) -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    base = glob.escape(str(Path(folder) / "plain"))
    found = list(globs.matching([f"{base}/started-4-*.json", f"{base}/exit-4-*.json", f"{base}/seen.json"]))
    assert len(found) == 4 and len(listed) == 1
