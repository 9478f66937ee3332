"""One user, one folder, one cluster (or none): launching through the front door and looking at what came of it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults import WrappedCommands, kill_at
from tests.faults.kill import Point
from tests.lab import Launcher

#: Appends word, job and experiment to a file for each run: how often the payload really ran, whatever anybody recorded.
#: Then it takes so many seconds, or waits for a file.
PAYLOAD = """\
#!/bin/bash
echo "$1 $NEMO_LAUNCH_JOB_ID ${NEMO_LAUNCH_EXPERIMENT:-}" >> "$2"
case ${3:-0} in
/*) until [ -e "$3" ]; do sleep 0.1; done ;;
*) sleep "${3:-0}" ;;
esac
"""


@dataclass
class Scene:
    """A launcher in a folder of its own; with ``commands`` its Slurm commands are stand-ins."""

    launcher: Launcher
    commands: WrappedCommands | None = None
    extra: dict[str, str] = field(default_factory=dict)
    """More environment for every call."""

    # -- what the user types ------------------------------------------------------------------------------------

    def env(self, **more: str) -> dict[str, str]:
        env = {**self.extra, **more}
        if self.commands:
            env["PATH"] = f"{self.commands.directory}:{self.launcher.env()['PATH']}"
        return env

    def __call__(self, *words: str | Path, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        """run.py to its end."""
        return self.run(words, env, timeout)

    def run(
        self, words: Sequence[str | Path], env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """The same with an environment that is at hand as a whole."""
        return self.launcher(*words, env=self.env(**(env or {})), timeout=timeout)

    def start(self, *words: str | Path, env: Mapping[str, str] | None = None, **kwargs: Any) -> subprocess.Popen[str]:
        """run.py in a session of its own."""
        kwargs.setdefault("stdout", subprocess.DEVNULL)
        kwargs.setdefault("stderr", subprocess.DEVNULL)
        return self.launcher.start(*words, env=self.env(**(env or {})), **kwargs)

    def python(self, text: str, name: str = "launch.py") -> list[str]:
        """A launch script of the user's own: its argv."""
        path = self.launcher.workspace / name
        path.write_text(text)
        path.chmod(0o644)
        return [*self.launcher.prefix, str(self.launcher.python), str(path)]

    def python_env(self, **more: str) -> dict[str, str]:
        return self.launcher.env(PYTHONPATH=str(self.launcher.checkout), **self.env(**more))

    def run_python(self, text: str, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.python(text),
            env=self.python_env(**env),
            cwd=self.launcher.work,
            timeout=timeout,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def start_python(self, text: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.python(text),
            env=self.python_env(),
            cwd=self.launcher.work,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def killed(self, process: subprocess.Popen[str], point: Point, *, release: bool = True) -> bool:
        """SIGKILL at that point; False when it had ended before. Stand-ins that are held go on afterwards."""
        try:
            return kill_at(process, point, timeout=90)
        finally:
            if self.commands and release:
                self.commands.release()

    # -- what came of it ------------------------------------------------------------------------------------------

    def status(self, *words: str, env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The tasks of the newest experiment (or of one), as JSON tells them."""
        done = self.run(["status", "--json", *words], env)
        assert done.returncode == 0, done.stderr
        tasks: list[dict[str, Any]] = json.loads(done.stdout)["tasks"]
        return tasks

    def until(
        self,
        true: Callable[[list[dict[str, Any]]], bool],
        *words: str,
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Ask for the status until it is so."""
        deadline = time.monotonic() + timeout
        while not true(tasks := self.status(*words, env=env)):
            assert time.monotonic() < deadline, (tasks, self.logs())
            time.sleep(0.3)
        return tasks

    def ended(self, *words: str, timeout: float = 120, env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The status once every task is final."""
        return self.until(lambda tasks: all(task["final"] for task in tasks), *words, timeout=timeout, env=env)

    def experiments(self) -> list[str]:
        """Ids of the experiments that have a record."""
        return sorted(path.parent.name for path in self.launcher.runs.glob("experiments/*/*/experiment.json"))

    def directory(self, task: str = "*") -> Path:
        """The newest directory of a task."""
        return max(self.launcher.runs.glob(f"experiments/*/*/{task}/task.json"), key=lambda p: p.parts[-3]).parent

    def log(self, task: str = "*") -> str:
        """The newest log."""
        found = sorted(self.directory(task).glob("[0-9]*.log"), key=lambda p: p.stat().st_mtime)
        return found[-1].read_text() if found else ""

    def logs(self) -> str:
        return "\n".join(p.read_text() for p in self.launcher.runs.glob("experiments/*/*/*/[0-9]*.log"))

    def jobs(self) -> dict[str, str]:
        """Every job the cluster ever got from here, by id, with its state: asked of Slurm, not of the product."""
        assert self.launcher.lab is not None
        rows = self.launcher.lab.slurm("squeue", "-h", "-t", "all", "-o", "%i\t%T\t%o").splitlines()
        split = (row.split("\t", 2) for row in rows)
        return {job: state for job, state, script in split if script.startswith(f"{self.launcher.workspace}/")}

    def ran(self, name: str = "ran") -> list[str]:
        """What the payloads appended to a file beside the work dir."""
        path = self.launcher.workspace / name
        return path.read_text().splitlines() if path.exists() else []

    def created(self) -> list[str]:
        """Everything under the user's home of runs."""
        return sorted(str(p.relative_to(self.launcher.runs)) for p in self.launcher.runs.rglob("*"))


def block(text: str) -> dict[str, str]:
    """The fields of a status block with one task."""
    return dict(re.findall(r"^- ([^:]+): (.*)$", text, re.MULTILINE))


def names(tasks: Sequence[Mapping[str, Any]], key: str = "state") -> list[Any]:
    return [task[key] for task in tasks]
