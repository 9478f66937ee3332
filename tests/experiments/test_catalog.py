"""Finding experiments again: none is hidden by another, and a title means its newest."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import Experiment, LocalExecutor, NotFound, RecordError, Script, records


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


def written(home: Path, title: str, number: int, created: float) -> str:
    """A record as a launch at ``created`` leaves it."""
    folder = home / "experiments" / title / f"{title}_{number}"
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text(json.dumps({"schema_version": 1, "created": created, "tasks": []}))
    return folder.name


def test_a_burst_of_launches_does_not_hide_what_came_after_it(home: Path) -> None:
    now = int(time.time()) - 100
    burst = [written(home, "burst", now + number, now + number / 30) for number in range(30)]
    later = written(home, "later", now + 5, now + 5.5)
    assert Experiment.catalog() == [*burst, later]
    newest = Experiment.newest()
    assert newest is not None
    assert newest.id == later
    assert Experiment.from_id(burst[-1]).created == pytest.approx(now + 29 / 30)
    assert Experiment.from_title("burst").id == burst[-1]


def test_without_a_readable_record_the_id_tells_the_time(home: Path) -> None:
    now = int(time.time()) - 100
    ids = [written(home, title, now + number, now + number) for number, title in enumerate(("a", "b", "c"))]
    (home / "experiments" / "b" / ids[1] / "experiment.json").write_text("{")
    assert Experiment.catalog() == ids


def test_the_newest_of_very_many_is_found_by_reading_few_records(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time()) - 200_000
    for number in range(300):
        written(home, f"t{number % 3}", now + 100 * number, now + 100 * number + 0.5)
    reads = []
    real = records.read_json

    def read_json(path: str) -> dict[str, Any] | None:
        reads.append(path)
        return real(path)

    monkeypatch.setattr(records, "read_json", read_json)
    newest = Experiment.newest()
    assert newest is not None
    assert newest.id == f"t2_{now + 29900}"
    assert len(reads) < 10


def test_an_id_for_a_title_and_a_title_for_an_id_are_told_apart() -> None:
    id = launched("py2")
    with pytest.raises(NotFound, match="'py2' is a title, not an id. Experiment.from_title finds its newest"):
        Experiment.from_id("py2")
    with pytest.raises(NotFound, match=f"'{id}' is an id, not a title. Experiment.from_id finds it"):
        Experiment.from_title(id)
    with pytest.raises(NotFound, match="no experiment 'py3' .* Near: py2"):
        Experiment.from_id("py3")
