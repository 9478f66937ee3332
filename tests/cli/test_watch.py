"""``status --watch``: lines where standard output is a pipe, a table on a terminal, Ctrl-C, exit codes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import RUN_PY, Cli


def test_lines_when_piped_and_the_exit_code_of_wait(cli: Cli) -> None:
    go = cli.work / "go"
    cli("-s", cli.script("bad.sh", f"while [ ! -e {go} ]; do sleep 0.1; done; exit 5\n"), "--detach")
    process = cli.start("status", "bad", "--watch")
    assert process.stdout is not None
    first = process.stdout.readline()
    while "RUNNING" not in first:
        first = process.stdout.readline()
    go.touch()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  bad_\d+/bad  RUNNING  job \d+ on \S+\n", first)
    assert re.fullmatch(r"\S+ \S+  bad_\d+/bad  FAILED  job \d+; exit code 5.*", out.splitlines()[-1])
    done = cli("status", "bad", "--watch")
    assert (done.code, len(done.out.splitlines())) == (1, 1)
    cli("-s", cli.script("good.sh", "true\n"), "--wait")
    done = cli("status", "good", "--watch")
    assert (done.code, "SUCCEEDED" in done.out) == (0, True)
    done = cli("status", "good", "bad", "--watch")
    assert (done.code, len(done.out.splitlines())) == (1, 2)


def test_ctrl_c_leaves_and_the_task_goes_on(cli: Cli) -> None:
    cli("-s", cli.script("long.sh", "sleep 60\n"), "--detach")
    process = cli.start("status", "long", "--watch")
    assert process.stdout is not None and process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "detached" in err and "cancel long_" in err and "Traceback" not in err
    assert "- Status: RUNNING" in cli("status", "long").out
    cli("cancel", "long")


def test_a_table_on_a_terminal_and_the_block_at_the_end(cli: Cli) -> None:
    go = cli.work / "go"
    cli("-s", cli.script("shown.sh", f"while [ ! -e {go} ]; do sleep 0.1; done\n"), "--detach")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(RUN_PY), "status", "shown", "--watch"],
        cwd=cli.work,
        env={**cli.env, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    text, deadline = "", time.monotonic() + 90
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        assert time.monotonic() < deadline, text
        if select.select([ours], [], [], 0.2)[0]:
            try:
                text += os.read(ours, 65536).decode()
            except OSError:  # nobody holds the other end
                break
        if "Ctrl-C leaves" in text:
            go.touch()
    os.close(ours)
    assert process.wait(60) == 0
    assert "TASK" in text and "STATUS" in text
    end = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).rpartition("Ctrl-C leaves")[2]
    assert "Status: SUCCEEDED" in end


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch", "--json"], "--json: --watch prints for people"),
        (["--interval", "20"], "--interval: it has no effect without --wait or --watch"),
        (["--watch", "--interval", "0"], "is not a number of seconds from 1 to 86400"),
        (["--watch", "--interval", "nan"], "is not a number of seconds from 1 to 86400"),
        (["--watch", "--wait"], "not allowed with argument"),
    ],
)
def test_what_does_not_go_together(cli: Cli, words: list[str], said: str) -> None:
    done = cli("status", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
