"""The launcher as its users start it: ``python run.py …``, without rights, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.cluster import Lab
from tests.lab.user import LabUser


@dataclass(frozen=True)
class Launcher:
    """Calls run.py; ``launcher("-s", "train.py")`` waits for its end, :meth:`start` does not."""

    user: LabUser
    python: Path
    checkout: Path
    workspace: Path
    """Belongs to the user. In it: ``work`` (the current directory), ``home`` (HOME), ``runs`` (NEMORUN_HOME)."""
    lab: Lab | None = None

    def __post_init__(self) -> None:
        for path in (self.work, self.home, self.runs):
            if not path.exists():
                self.user.make_dir(path)

    @property
    def work(self) -> Path:
        return self.workspace / "work"

    @property
    def home(self) -> Path:
        return self.workspace / "home"

    @property
    def runs(self) -> Path:
        return self.workspace / "runs"

    def env(self, **more: str) -> dict[str, str]:
        """The clean environment that run.py gets, and more."""
        env = {
            "HOME": str(self.home),
            "USER": self.user.name,
            "LOGNAME": self.user.name,
            "LANG": "C.UTF-8",
            "PATH": f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin",
            "NEMORUN_HOME": str(self.runs),
        }
        if self.lab is not None:
            env["SLURM_CONF"] = str(self.lab.conf)
        return {**env, **more}

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """A file of the user's in the work directory, such as a recipe."""
        path = self.work / name
        for folder in reversed(path.relative_to(self.work).parents):
            if not (self.work / folder).exists():
                self.user.make_dir(self.work / folder)
        path.write_text(text)
        path.chmod(mode)
        os.chown(path, self.user.uid, self.user.gid)
        return path

    def argv(self, *args: str | os.PathLike[str]) -> list[str]:
        return [str(self.python), str(self.checkout / "run.py"), *(os.fspath(arg) for arg in args)]

    def __call__(
        self,
        *args: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 180,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs run.py to its end; ``env`` is added to :meth:`env`."""
        return subprocess.run(
            [*self.prefix, *self.argv(*args)],
            env=self.env(**(env or {})),
            cwd=cwd or self.work,
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
        )

    def start(
        self,
        *args: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **kwargs: Any,
    ) -> subprocess.Popen[str]:
        """Starts run.py in a session of its own; the pid is that of its Python."""
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            [*self.prefix, *self.argv(*args)],
            env=self.env(**(env or {})),
            cwd=cwd or self.work,
            text=True,
            start_new_session=True,
            **kwargs,
        )

    @property
    def prefix(self) -> list[str]:
        return list(self.user.prefix) if self.lab is None else self.lab.prefix
