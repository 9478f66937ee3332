"""A git that is missing, hangs or is somebody else's never stands in the way of a snapshot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_launch import packaging
from nemo_launch.packaging import git as git_module
from tests.packaging.tree import git, names, root_only, write


def test_without_the_program_git_the_folder_is_walked(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo / "run.log")
    monkeypatch.setenv("PATH", str(repo))
    code = packaging.collect(str(repo))
    assert names(code) == {"train.py", "lib/model.py", ".gitignore", "run.log"}
    assert code.commit is None
    assert any("the program git was not found" in note for note in code.notes)


@root_only
def test_a_repository_of_another_user_is_walked(repo: Path) -> None:
    os.chown(repo, 12345, 12345)
    os.chown(repo / ".git", 12345, 12345)
    code = packaging.collect(str(repo))
    assert "train.py" in names(code)
    assert any("safe.directory" in note for note in code.notes)


def test_a_broken_repository_is_walked(repo: Path) -> None:
    (repo / ".git" / "HEAD").unlink()
    code = packaging.collect(str(repo))
    assert "train.py" in names(code) and code.notes


def test_a_repository_without_commits_keeps_its_rules(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write(folder / ".gitignore", "*.log\n")
    write(folder / "a.log")
    write(folder / "a.py")
    git(folder, "init", "-q")
    code = packaging.collect(str(folder))
    assert names(code) == {".gitignore", "a.py"}
    assert (code.commit, code.dirty) == (None, 2)
    assert any("no commit yet" in note for note in code.notes)


def test_a_git_that_hangs_is_ended(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "bin" / "git", "#!/bin/sh\nexec sleep 60\n", 0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(git_module, "TIME_LIMIT", 0.3)
    code = packaging.collect(str(repo))
    assert "train.py" in names(code)
    assert any("no answer" in note for note in code.notes)


def test_a_surrounding_git_does_not_mislead(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other.index"))
    code = packaging.collect(str(repo))
    assert code.notes == () and code.commit


# stored --------------------------------------------------------------------------------------------------------
