"""A repository to take snapshots of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.tree import git, write


@pytest.fixture(autouse=True)
def no_own_git_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    write(folder / "train.py", "import model\n")
    write(folder / "lib" / "model.py", "layers = 1\n")
    write(folder / ".gitignore", "*.log\nout/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder
