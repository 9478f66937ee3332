"""Trees of files, and what a snapshot of them holds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nemo_launch.task import Code

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(path: Path, text: str = "x", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def big(path: Path, size: int) -> Path:
    """A file of that size that takes no room."""
    path.touch()
    os.truncate(path, size)
    return path


def names(code: Code) -> set[str]:
    return {path for path, _ in code.files}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }
