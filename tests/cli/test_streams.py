"""Standard streams that are closed, full, or that nobody reads on: as under cron, ``nohup … >&-`` and ``| head``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RUN_PY, Cli, Done


def shell(cli: Cli, words: str, streams: str) -> Done:
    """run.py called by a shell that redirects its streams."""
    command = f'exec "{sys.executable}" "{RUN_PY}" {words} {streams}'
    done = subprocess.run(["sh", "-c", command], cwd=cli.work, env=cli.env, capture_output=True, text=True, timeout=150)
    return Done(done.returncode, done.stdout, done.stderr)


def experiments(cli: Cli) -> list[Path]:
    return sorted(cli.home.glob("experiments/*/*"))


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_dev_null(cli: Cli, streams: str) -> None:
    cli.script("a.sh", "read line; echo out; echo err >&2;\n")
    done = shell(cli, "-s a.sh --wait", streams)
    assert (done.code, "bug" in done.err, "- Status: SUCCEEDED" in cli("status").out) == (0, False, True), done
    [log] = cli.home.glob("experiments/a/*/a/*.log")
    assert log.read_text() == "out\nerr\n"
    for words in ("status", "logs", "-s a.sh --dry-run", "--help", "list"):
        done = shell(cli, words, streams)
        assert (done.code, done.err) == (0, ""), words
    assert shell(cli, "-s nothere.sh", streams).code == 2


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_a_launch_counts_although_its_block_cannot_be_written(cli: Cli, streams: str) -> None:
    cli.script("a.sh", "echo ran >> ../ran\n")
    for count in (1, 2):
        done = shell(cli, "-s a.sh --detach", streams)
        assert done.code == (4 if streams == ">/dev/full" else 0)
        if streams == ">/dev/full":
            assert done.err.startswith("run.py: error: cannot write the output: No space left on device. a_")
            assert done.err.endswith(" was launched, and goes on.\n")
        assert len(experiments(cli)) == count, "the same command starts another"
        assert cli("status", "--wait").code == 0
    assert (cli.work.parent / "ran").read_text() == "ran\nran\n"


def test_a_launch_counts_although_nobody_reads_its_block(cli: Cli) -> None:
    cli.script("a.sh", "echo ran >> ../ran\n")
    for count in (1, 2):
        process = cli.start("-s", "a.sh", "--detach")
        assert process.stdout and process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait(30)) == ("", 141)
        assert len(experiments(cli)) == count
        assert cli("status", "--wait").code == 0


@pytest.mark.parametrize(
    ("script", "words", "code", "says"),
    [
        ("true", "--wait", 4, "has succeeded"),
        ("exit 3", "--wait", 1, "exit code 3"),
        ("echo x; sleep 60", "--follow", 4, "was launched, and goes on"),
    ],
)
def test_what_became_of_the_run_is_said_although_the_output_is_full(
    cli: Cli, script: str, words: str, code: int, says: str
) -> None:
    cli.script("a.sh", script + "\n")
    done = shell(cli, f"-s a.sh {words}", ">/dev/full")
    assert (done.code, says in done.err, "No space left" in done.err) == (code, True, True), done


@pytest.mark.parametrize("words", ["status", "status --json", "logs", "list", "show a", "--help", "logs --help"])
def test_output_that_cannot_be_written_is_said(cli: Cli, words: str) -> None:
    cli("-s", cli.script("a.sh", "echo x\n"), "--wait")
    done = shell(cli, words, ">/dev/full")
    assert (done.code, done.err) == (4, "run.py: error: cannot write the output: No space left on device.\n")


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-", ">/dev/full 2>/dev/full", ">&- 2>&-"])
def test_bad_input_is_2_although_nobody_can_be_told(cli: Cli, streams: str) -> None:
    assert shell(cli, "-s nothere.sh", streams).code == 2
    assert shell(cli, "-s nothere.sh --debug", streams).code == 2
