"""Finding experiments again: none is hidden by another, and a title means its newest."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from nemo_launch import Experiment, LocalExecutor, RecordError, Script


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def launched(title: str) -> str:
    one = Experiment(title, LocalExecutor())
    one.add(Script(inline="true"))
    one.run()
    return one.id


def test_launches_of_the_same_second_are_listed_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    ids = [launched("same") for _ in range(3)]
    assert len(set(ids)) == 3
    assert Experiment.catalog("same") == ids
    assert Experiment.from_title("same").id == ids[-1]


def test_a_clock_that_was_set_back_does_not_hide_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    first = launched("clock")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 86400)
    second = launched("clock")
    assert Experiment.catalog("clock") == [first, second]
    assert Experiment.from_title("clock").id == second


def test_a_folder_with_an_odd_number_does_not_lead_the_ids_astray(home: Path) -> None:
    (home / "experiments" / "odd" / "odd_99999999999").mkdir(parents=True)
    assert abs(int(launched("odd").rpartition("_")[2]) - time.time()) < 60


def test_what_another_user_hides_does_not_hide_the_rest(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine = launched("mine")
    theirs = home / "experiments" / "theirs"
    theirs.mkdir()
    real = os.listdir

    def listdir(path: str = ".") -> list[str]:
        if path == str(theirs):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    with caplog.at_level(logging.WARNING, "nemo_launch"):
        assert Experiment.catalog() == [mine]
    assert f"left out {theirs}: Permission denied" in caplog.text
    with pytest.raises(RecordError, match="cannot read .*theirs: Permission denied"):
        Experiment.catalog("theirs")
