"""What status says while things happen to jobs: asked again and again, and kept when the answer changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.scene import Scene
from tests.lab import Lab
from tests.views.test_schema import check

#: Runs until its task is told to go on. Slurm's signals end it, as they end most programs.
WAITS = """\
#!/bin/bash
while [ ! -e "go-${NEMO_LAUNCH_EXPERIMENT%_*}" ]; do sleep 0.1; done
exit "${1:-0}"
"""


@dataclass(frozen=True)
class Answer:
    """What status said of a task, and when (unix seconds)."""

    at: float
    state: str
    words: str

    @classmethod
    def of(cls, task: dict[str, Any], at: float) -> Answer:
        """From JSON: the reason and whatever else the status block would show of it."""
        words = [task["reason"]] if task["reason"] else []
        # With which code it ends when something ends it hangs on what it was doing at that moment.
        if task["exit_code"] and task["state"] != "CANCELLED" and not words:
            words.append(f"exit code {task['exit_code']}")
        if task["restarting"]:
            words.append(f"attempt {task['attempt'] + 1} follows")
        elif task["attempt"]:
            words.append(f"attempt {task['attempt'] + 1}")
        if task["age"] is not None:
            words.append("last known N s ago")
        return cls(at, task["state"], "; ".join(words))


@dataclass
class Watcher:
    """Asks for all experiments again and again; each has one task. Answers are by the experiments' titles."""

    scene: Scene
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[Watcher]:
        """While this lasts."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.3):
            if ids := self.scene.experiments():
                done = self.scene("status", "--json", *ids, timeout=170)
                if done.returncode:
                    self.failed.append(done.stderr)
                else:
                    document = json.loads(done.stdout)
                    check(document)
                    self._keep(document, time.time())

    def _keep(self, document: dict[str, Any], at: float) -> None:
        for entry in document.get("experiments", [document]):
            for task in entry["tasks"]:
                now, before = Answer.of(task, at), self.answers.setdefault(entry["experiment"]["title"], [])
                if not before or (before[-1].state, before[-1].words) != (now.state, now.words):
                    before.append(now)

    def until(self, name: str, *states: str, words: str = "", timeout: float = 150) -> Answer:
        """The newest answer, once it is one of these states and has these words."""
        deadline = time.monotonic() + timeout
        while True:
            seen = self.answers.get(name, [])
            if seen and seen[-1].state in states and words in seen[-1].words:
                return seen[-1]
            assert time.monotonic() < deadline, (name, states, words, seen, self.failed[-3:])
            time.sleep(0.1)


@dataclass(frozen=True)
class Admin:
    """The cluster's administrator: may do to it whatever happens to clusters."""

    lab: Lab

    def __call__(self, *argv: str) -> str:
        """Run one of Slurm's commands as root."""
        net = ["nsenter", f"--net=/run/netns/{self.lab.netns}"] if self.lab.netns else []
        env = {**os.environ, "SLURM_CONF": str(self.lab.conf)}
        done = subprocess.run([*net, *argv], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def kill(self, daemon: str, number: int = signal.SIGTERM) -> None:
        """End one of the cluster's own daemons (name of its pid file) and wait for its end."""
        pid = int((self.lab.directory / "run" / f"{daemon}.pid").read_text())
        os.kill(pid, number)
        deadline = time.monotonic() + 60
        while os.path.exists(f"/proc/{pid}") and "Z" not in _state(pid):
            assert time.monotonic() < deadline, f"{daemon} does not end"
            time.sleep(0.1)

    def wipe_accounting(self) -> None:
        """All jobs vanish from the database."""
        socket = self.lab.directory / "mysql" / "mysqld.sock"
        text = "delete from lab_step_table; delete from lab_job_table;"
        argv = ["mariadb", "--no-defaults", f"--socket={socket}", "-u", "root", "slurm_acct_db", "-e", text]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
