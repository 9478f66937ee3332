"""Commands of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_launch.errors import Unreachable
from nemo_launch.transport import LocalTransport


def test_a_command_runs_although_the_current_directory_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert LocalTransport().run(["pwd", "-P"]).stdout == f"{gone}\n"
    gone.rmdir()
    done = LocalTransport().run(["pwd", "-P"])  # sbatch asks for it, too, and gives up without
    assert (done.returncode, done.stdout, done.stderr) == (0, "/\n", "")


def test_a_command_that_does_not_end_in_time_is_ended() -> None:
    with pytest.raises(Unreachable, match=r"sleep gave no answer within 0\.3 s"):
        LocalTransport().run(["sleep", "600"], timeout=0.3)


def test_there_is_something_to_do_while_a_command_runs(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # the command waits for what is written only meanwhile

    def write() -> None:
        fifo.write_text("meanwhile")

    assert LocalTransport().run(["cat", str(fifo)], meanwhile=write).stdout == "meanwhile"
