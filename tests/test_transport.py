"""Commands of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

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
