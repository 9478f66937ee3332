"""A task's processes are found by parent, session and environment, whatever they are called."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_launch import identity
from nemo_launch.executors.local import processes


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[str]], *argv: str, **env: str) -> int:
    process = subprocess.Popen(
        argv, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    started.append(process)
    return process.pid


def wait_until_is(pid: int, program: str) -> None:
    """fork comes before exec, and until then the child looks like this process; its environment is there last."""
    while os.path.basename(os.readlink(f"/proc/{pid}/exe")) != program or not Path(f"/proc/{pid}/environ").read_bytes():
        time.sleep(0.01)


def pids(directory: str, root: int | None = None) -> set[int]:
    return {p.pid for p in processes.members(directory, root, root and identity.start_time(root))}


def test_by_its_environment(started: list[subprocess.Popen[str]]) -> None:
    sleep = os.path.basename(os.path.realpath(shutil.which("sleep") or ""))
    mine = start(started, "sleep", "60", **{processes.MARKER: "/x/task"})
    others = [start(started, "sleep", "60", **{processes.MARKER: value}) for value in ("/x/task2", "/x/tas", "")]
    for pid in (mine, *others):
        wait_until_is(pid, sleep)
    assert pids("/x/task") == {mine}


def test_by_session_and_by_parent(started: list[subprocess.Popen[str]]) -> None:
    code = (
        "import os, subprocess as s; n = {'start_new_session': True};"
        "a = s.Popen(['sleep', '60'], env={}); b = s.Popen(['sleep', '60'], env={}, **n);"
        "print(a.pid, b.pid, flush=True); a.wait()"
    )
    root = start(started, sys.executable, "-c", code)
    assert started[0].stdout is not None
    same_session, child = map(int, started[0].stdout.readline().split())
    try:
        assert pids("/nowhere", root) == {root, same_session, child}
        assert pids("/nowhere") == set()
        wrong = processes.members("/nowhere", root, 1)  # the number is another process's by now
        assert wrong == set()
    finally:
        for pid in (same_session, child):
            os.kill(pid, signal.SIGKILL)


def test_a_name_that_looks_like_the_table(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to(shutil.which("sleep") or "")
    pid = start(started, str(program), "60", **{processes.MARKER: str(tmp_path)})
    wait_until_is(pid, os.path.basename(os.path.realpath(program)))
    assert pids(str(tmp_path)) == {pid}
    assert processes.table()[pid].parent == os.getpid()


def test_a_signal_reaches_only_the_process_that_was_meant(started: list[subprocess.Popen[str]]) -> None:
    pid = start(started, "sleep", "60")
    right = processes.table()[pid]
    processes.send([right._replace(start=right.start - 1)], signal.SIGKILL)
    time.sleep(0.1)
    assert started[0].poll() is None
    processes.send([right], signal.SIGKILL)
    assert started[0].wait(10) == -signal.SIGKILL


def test_identity(started: list[subprocess.Popen[str]]) -> None:
    pid = start(started, "sleep", "60")
    known = identity.of(pid)
    assert identity.alive(known) is True
    assert identity.alive({**known, "start": known["start"] - 1}) is False
    assert identity.alive({**known, "boot": "earlier"}) is False
    assert identity.alive({**known, "boot": "another", "host": "far"}) is None
    assert identity.alive({**known, "space": "pid:[1]"}) is None
    os.kill(pid, signal.SIGKILL)
    while identity.alive(known):
        time.sleep(0.01)
    assert Path(f"/proc/{pid}").exists()  # a zombie: nobody has waited for it yet
    assert identity.alive(identity.mine()) is True
