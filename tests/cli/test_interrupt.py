"""Ctrl-C: a followed local run is asked to end, then killed; everything else goes on."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

SAVES = "trap 'echo saving; sleep 0.3; echo saved; exit 0' TERM\necho ready\nwhile :; do sleep 0.1; done\n"
STUBBORN = "trap '' TERM\necho ready\nwhile :; do sleep 0.1; done\n"


def until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    for line in process.stdout:
        if line == "ready\n":
            return
    raise AssertionError("it never came up")


def until_idle(pid: int) -> None:
    """It has used no processor for half a second, and so it waits for something."""
    deadline, used, before = time.monotonic() + 60, [""], [""]
    while not used[0] or used == ["0", "0"] or used != before:
        assert time.monotonic() < deadline
        before = used
        time.sleep(0.5)
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used = stat[11:13] if stat[0] == "S" else [""]


def test_once_lets_the_run_save_and_shows_how_it_ended(cli: Cli) -> None:
    process = cli.start("-s", cli.script("a.sh", SAVES))
    until_ready(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "saving\nsaved\n" in out
    assert "- Status: CANCELLED\n" in out
    assert "Ctrl-C again kills it" in err


def test_twice_kills(cli: Cli) -> None:
    process = cli.start("-s", cli.script("a.sh", STUBBORN))
    until_ready(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert any("Ctrl-C again kills it" in line for line in process.stderr)
    time.sleep(0.5)
    assert process.poll() is None, "it goes on following a run that ignores TERM"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "- Status: CANCELLED\n" in out


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_a_lost_terminal_leaves_it_running(cli: Cli, number: signal.Signals) -> None:
    process = cli.start("-s", cli.script("a.sh", "echo ready; sleep 1; echo still here\n"))
    until_ready(process)
    process.send_signal(number)
    process.communicate(timeout=90)
    assert cli("status", "--wait").code == 0
    assert "still here" in cli("logs").out


@pytest.mark.parametrize("words", [["logs", "-f"], ["status", "--wait"]])
def test_whoever_only_looks_on_detaches(cli: Cli, words: list[str]) -> None:
    cli("-s", cli.script("a.sh", "echo ready; sleep 60\n"), "--detach")
    process = cli.start(*words)
    until_idle(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "- Status: RUNNING" in cli("status").out
