"""Records are written whole or not at all, and an id belongs to one launch."""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_launch import layout, records
from nemo_launch.errors import InputError, RecordError
from nemo_launch.executors.base import Handle
from nemo_launch.experiments import ledger
from nemo_launch.layout import ExperimentPaths


def test_a_record_comes_back_as_written(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    records.write_json(path, {"text": "é\n\"'", "number": 1.5})
    assert records.read_json(path) == {"schema_version": records.SCHEMA_VERSION, "text": "é\n\"'", "number": 1.5}
    assert os.listdir(tmp_path) == ["a.json"]


def test_no_record_is_none_and_a_damaged_one_is_one_clear_error(tmp_path: Path) -> None:
    assert records.read_json(str(tmp_path / "missing.json")) is None
    (tmp_path / "half.json").write_text('{"id": ')
    with pytest.raises(RecordError, match="half.json is damaged"):
        records.read_json(str(tmp_path / "half.json"))


def test_a_record_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text('{"schema_version": 99}')
    with pytest.raises(RecordError, match="newer nemo_launch"):
        records.read_json(str(tmp_path / "new.json"))


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", '{"schema_version": "x"}'])
def test_whatever_stands_in_a_record_the_error_is_clear(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(RecordError, match="odd.json"):
        records.read_json(str(tmp_path / "odd.json"))


def test_processes_of_one_number_on_two_machines_do_not_share_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both would believe that they made the record, and both would launch."""
    path, link = str(tmp_path / "once.json"), os.link

    def meanwhile(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        assert records.create_json(path, {"by": 2})
        link(source, target)

    monkeypatch.setattr(os, "link", meanwhile)
    assert not records.create_json(path, {"by": 1})
    assert (records.read_json(path) or {})["by"] == 2
    assert os.listdir(tmp_path) == ["once.json"]


def test_only_one_of_many_creators_makes_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "once.json")
    assert records.create_json(path, {"by": 1})
    assert not records.create_json(path, {"by": 2})
    assert (records.read_json(path) or {})["by"] == 1
    assert os.listdir(tmp_path) == ["once.json"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    records.write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):
        records.write_json(str(path), {"a": object()})
    assert (records.read_json(str(path)) or {})["a"] == 1
    assert os.listdir(tmp_path) == ["kept.json"]


def test_eight_launchers_in_the_same_second_get_eight_folders(tmp_path: Path) -> None:
    code = "import sys; from nemo_launch import records; print(records.claim_experiment(sys.argv[1], 'same').dir)"
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    folders = [process.communicate()[0].strip() for process in running]
    assert len(set(folders)) == 8
    assert all(os.path.isdir(folder) for folder in folders)


def test_an_unwritable_home_is_named_with_the_remedy() -> None:
    with pytest.raises(RecordError, match="Set NEMORUN_HOME"):
        records.claim_experiment("/proc/no-such-place", "title")


def test_a_home_with_a_newline_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMORUN_HOME", "/tmp/a\nb")
    with pytest.raises(InputError, match="newline"):
        layout.home()


def test_a_launcher_that_lives_is_not_replaced_and_a_dead_one_is_replaced_once(tmp_path: Path) -> None:
    paths = ExperimentPaths(str(tmp_path), "t", "t_1")
    os.makedirs(paths.dir)
    assert ledger.own(paths, 0)
    assert ledger.launcher_alive(paths) == (True, 1)

    code = (
        "import sys; from nemo_launch.experiments import ledger; from nemo_launch.layout import ExperimentPaths;"
        "print(ledger.own(ExperimentPaths(sys.argv[1], 't', 't_2'), 0))"
    )
    os.makedirs(os.path.join(tmp_path, "experiments", "t", "t_2"))
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    other = ExperimentPaths(str(tmp_path), "t", "t_2")
    assert ledger.launcher_alive(other) == (False, 1)
    assert ledger.own(other, 1)
    assert not ledger.own(other, 1)


@pytest.mark.parametrize("odd", ["{", '{"job_id": 3}', "[]"])
def test_id_and_intent_stand_in_for_each_other_where_one_is_damaged(tmp_path: Path, odd: str) -> None:
    paths = ExperimentPaths(str(tmp_path), "t", "t_1").task("a")
    Path(paths.dir).mkdir(parents=True)
    records.write_json(paths.intent, {"time": 5.0})
    Path(paths.handle).write_text(odd)
    job = ledger.read_job("a", paths)
    assert (job.handle, job.intended) == (None, 5.0)
    ledger.write_handle(paths, Handle("42"))
    Path(paths.intent).write_text("{")
    assert ledger.read_job("a", paths).handle == Handle("42")
    Path(paths.handle).write_text(odd)
    with pytest.raises(RecordError, match="damaged"):
        ledger.read_job("a", paths)


def test_handles_come_back_as_written(tmp_path: Path) -> None:
    paths = ExperimentPaths(str(tmp_path), "t", "t_1").task("train")
    os.makedirs(paths.dir)
    handle = Handle("42", cluster="alpha", array_index=3)
    ledger.write_handle(paths, handle)
    assert ledger.read_job("train", paths).handle == handle
    assert str(handle) == "42_3"


# what cannot be written


@pytest.mark.parametrize(
    ("path", "says", "not_says"),
    [
        (
            "home/experiments/a/a_1/a/cancelled",
            "The experiment belongs to {me}, and only {me} can change it",
            "NEMORUN",
        ),
        ("home/experiments/a", "It belongs to {me}. Set NEMORUN_HOME to", "only"),
        ("home", "It belongs to {me}. Set NEMORUN_HOME to", "only"),
        ("jobs/a/a_1/a/job.sh", "It belongs to {me}. Name as job_dir", "NEMORUN"),
    ],
)
def test_whose_it_is_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, says: str, not_says: str
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    me = pwd.getpwuid(os.geteuid()).pw_name
    uid = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    whole = str(tmp_path / path)
    text = str(records.unwritable(whole, PermissionError(errno.EACCES, "Permission denied", f"{whole}.1-f.tmp")))
    assert text.startswith(f"cannot write {whole}: Permission denied. {says.format(me=me)}")
    assert not_says not in text


def test_a_full_disk_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    error = OSError(errno.ENOSPC, "No space left on device")
    path = str(tmp_path / "experiments" / "a" / "a_1" / "a" / "task.json")
    assert "belongs" not in str(records.unwritable(path, error))
    assert "Set NEMORUN_HOME" in str(records.unwritable(path, error))


def test_a_locale_that_cannot_name_a_file_is_no_damage(tmp_path: Path) -> None:
    code = "import sys; from nemo_launch import records; records.read_json(sys.argv[1] + '/\\xe9.json')"
    env = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"}
    (tmp_path / "é.json").write_text("{}")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, capture_output=True, text=True)
    error = done.stderr.splitlines()[-1]
    assert "this locale cannot name it. Set LC_ALL=C.UTF-8" in error
    assert "damaged" not in error
