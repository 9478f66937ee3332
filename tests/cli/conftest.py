"""run.py as users call it, with a home of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

RUN_PY = Path(__file__).resolve().parents[2] / "run.py"


class Done(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str


class Cli:
    """run.py in a work dir, with a home that does not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.home = folder / "home"
        self.work.mkdir()
        keep = ("PATH", "HOME", "LANG", "SLURM_CONF")
        self.env = {name: os.environ[name] for name in keep if name in os.environ}
        self.env["NEMORUN_HOME"] = str(self.home)
        self._started: list[subprocess.Popen[str]] = []

    def script(self, name: str, text: str) -> str:
        """A script in the work dir."""
        (self.work / name).write_text(text)
        return name

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start run.py; streams are pipes."""
        process = subprocess.Popen(
            [sys.executable, str(RUN_PY), *words],
            cwd=self.work,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="surrogateescape",
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def __call__(self, *words: str, **env: str) -> Done:
        """Run it to its end."""
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=150)
        return Done(process.returncode, out, err)

    def created(self) -> list[str]:
        """What there is under the home."""
        return sorted(str(path) for path in self.home.rglob("*")) if self.home.exists() else []

    def clean(self) -> None:
        """End what a test left behind."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self.home.exists():
            for folder in self.home.glob("experiments/*/*"):
                if not list(folder.glob("*/exit-*.json")):
                    self("cancel", folder.name)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """run.py with a home and a work dir of its own."""
    made = Cli(tmp_path)
    yield made
    made.clean()


@pytest.fixture
def refused(cli: Cli) -> Callable[..., Done]:
    """A launch that must be refused: exit code 2, only paragraphs on standard error, nothing created."""

    def run(*words: str, code: int = 2, **env: str) -> Done:
        done = cli(*words, **env)
        assert done.code == code, done
        assert done.out == ""
        assert "Traceback" not in done.err
        assert "bug in nemo_launch" not in done.err
        assert all(line.startswith("run.py: ") for line in done.err.splitlines()), done.err
        assert cli.created() == []
        return done

    return run
