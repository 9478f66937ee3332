"""The snapshot of the code is stored whole or not at all."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_launch import packaging
from nemo_launch.errors import RecordError
from nemo_launch.packaging import snapshot
from nemo_launch.task import Code, Task
from tests.lab import LabUser
from tests.packaging.tree import contents, names, root_only, write


def test_a_snapshot_is_read_only_and_no_more_readable_than_the_original(repo: Path, tmp_path: Path) -> None:
    write(repo / "private.env", "TOKEN=x", 0o600)
    write(repo / "closed" / "f")
    (repo / "closed").chmod(0o700)
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    copy = tmp_path / "s" / code.digest
    for path in (copy, *copy.rglob("*")):
        assert not path.stat().st_mode & 0o222, path
    assert stat.S_IMODE((copy / "private.env").stat().st_mode) == 0o400
    assert stat.S_IMODE((copy / "closed").stat().st_mode) == 0o500
    assert os.listdir(tmp_path / "s") == [code.digest]


def test_a_snapshot_that_exists_is_used_without_copying(repo: Path, tmp_path: Path) -> None:
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    shutil.rmtree(repo)
    assert packaging.store(code, str(tmp_path / "s")) == code


def test_what_was_copied_names_the_snapshot_when_files_change_meanwhile(repo: Path, tmp_path: Path) -> None:
    before = packaging.collect(str(repo))
    write(repo / "train.py", "edited\n")
    (repo / "lib" / "model.py").unlink()
    after = packaging.store(before, str(tmp_path / "s"))
    assert after.digest == packaging.collect(str(repo)).digest != before.digest
    assert os.listdir(tmp_path / "s") == [after.digest]
    assert contents(tmp_path / "s" / after.digest)["train.py"] == "edited\n"


def test_a_tree_under_constant_edit_is_stored_under_its_own_name(repo: Path, tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        try:
            for number in itertools.count():
                write(repo / "grows.txt", "line\n" * (number % 5000))
                write(repo / "lib" / f"{number % 7}.py", str(number))
                (repo / "lib" / f"{(number + 3) % 7}.py").unlink(missing_ok=True)
        finally:
            os._exit(1)
    try:
        for _ in range(20):
            code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
            assert packaging.collect(str(tmp_path / "s" / code.digest)).digest == code.digest
            assert names(code) >= {"train.py", "lib/model.py"}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert len(os.listdir(tmp_path / "s")) > 1, "it was edited meanwhile"


def test_a_task_follows_its_code(repo: Path, tmp_path: Path) -> None:
    snapshots = str(tmp_path / "s")
    code = packaging.collect(str(repo))
    old = os.path.join(snapshots, code.digest)
    task = Task("t", "train.py", "python", (f"{old}/train.py", old), code=(code,), pythonpath=(old,))
    assert packaging.stored(task, snapshots) == task
    write(repo / "train.py", "edited\n")
    shutil.rmtree(old)
    moved = packaging.stored(task, snapshots)
    new = os.path.join(snapshots, moved.code[0].digest)
    assert new != old
    assert moved == replace(task, code=moved.code, argv=(f"{new}/train.py", old), pythonpath=(new,))
    assert Path(moved.argv[0]).read_text() == "edited\n"


def test_a_user_without_rights_stores_reuses_and_is_told_when_it_cannot(lab_user: LabUser) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        base = Path(temporary)
        base.chmod(0o755)
        write(base / "w" / "lib" / "a.py")
        for name in ("mine", "theirs"):
            (base / name).mkdir()
        os.chown(base / "mine", lab_user.uid, lab_user.gid)
        (base / "theirs").chmod(0o555)
        child = os.fork()
        if not child:
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setgid(lab_user.gid)
                    os.setuid(lab_user.uid)
                code = packaging.collect(str(base / "w"))
                for _ in range(2):
                    kept = packaging.store(code, str(base / "mine" / "s"))
                    assert os.listdir(base / "mine" / "s") == [kept.digest]
                with pytest.raises(RecordError, match="Permission denied"):
                    packaging.store(code, str(base / "theirs"))
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        subprocess.run(["chmod", "-R", "u+w", temporary], check=os.geteuid() == 0)


def _store(code: Code, snapshots: str, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    for _ in range(3):
        assert packaging.store(code, snapshots).digest == code.digest


def test_four_launchers_may_store_the_same_code_at_once(repo: Path, tmp_path: Path) -> None:
    for number in range(100):
        write(repo / "more" / str(number), str(number) * 1000)
    code = packaging.collect(str(repo))
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    racers = [context.Process(target=_store, args=(code, str(tmp_path / "s"), barrier)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert os.listdir(tmp_path / "s") == [code.digest]
    assert len(contents(tmp_path / "s" / code.digest)) == 103


def test_a_launcher_killed_while_storing_leaves_no_half_snapshot(repo: Path, tmp_path: Path) -> None:
    code = packaging.collect(str(repo))
    child = os.fork()
    if not child:
        snapshot._publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        packaging.store(code, str(tmp_path / "s"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert code.digest not in os.listdir(tmp_path / "s")
    packaging.store(code, str(tmp_path / "s"))
    assert set(contents(tmp_path / "s" / code.digest)) == names(code)


def test_what_killed_launchers_left_long_ago_is_swept_up(repo: Path, tmp_path: Path) -> None:
    for name, age in (("old", 90_000), ("young", 10)):
        folder = tmp_path / "s" / f".{name}.tmp"
        write(folder / "f")
        os.utime(folder, (time.time() - age, time.time() - age))
    packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    assert sorted(os.listdir(tmp_path / "s"))[0] == ".young.tmp"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@root_only
def test_a_full_disk_is_an_error_and_nothing_is_left(
    repo: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(small_disk))
    for number in range(8):
        write(repo / f"{number}.bin", "x" * 300_000)
    with pytest.raises(RecordError, match=r"No space left.*NEMORUN_HOME"):
        packaging.store(packaging.collect(str(repo)), str(small_disk / "s"))
    assert os.listdir(small_disk / "s") == []


def test_a_place_that_cannot_be_written_is_an_error(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path))
    write(tmp_path / "s")
    with pytest.raises(RecordError, match="NEMORUN_HOME"):
        packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))


# given as text -------------------------------------------------------------------------------------------------


def test_text_is_code_named_by_its_content(tmp_path: Path) -> None:
    code = packaging.inline("script.sh", "echo é\n")
    assert code == packaging.inline("script.sh", "echo é\n")
    assert code.digest != packaging.inline("script.sh", "echo e\n").digest
    assert packaging.store(code, str(tmp_path)).digest == code.digest
    assert (tmp_path / code.digest / "script.sh").read_bytes() == "echo é\n".encode()


def test_one_file_alone(tmp_path: Path) -> None:
    code = packaging.alone(str(write(tmp_path / "w" / "a.sh", "echo", 0o750)))
    write(tmp_path / "w" / "other")
    stored = packaging.store(code, str(tmp_path / "s"))
    assert stored.digest == code.digest
    assert contents(tmp_path / "s" / code.digest) == {"a.sh": "echo"}


def test_tasks_of_one_request_share_one_look_at_the_tree(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    with packaging.shared():
        first = packaging.collect(str(tmp_path))
        (tmp_path / "a.py").write_text("2")
        assert packaging.collect(str(tmp_path)) is first
        assert packaging.collect(str(tmp_path), include=["a.py"]).digest != first.digest
    assert packaging.collect(str(tmp_path)).digest != first.digest
