"""What the tests of killed launchers share: one launch, where it dies, and what was seen on the way."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.scene import Scene
from tests.faults import Rules, exists

TASK = "experiments/*/*/*"


def command(scene: Scene, *more: str) -> list[str]:
    """The same launch each time: the payload appends to a file beside the work dir."""
    ran = str(scene.launcher.workspace / "ran")
    return ["-e", "slurm", "-p", "a3m", "-s", "payload.sh", *more, "--", "payload", ran]


@dataclass
class Kill:
    """Where the launcher dies, and how slow sbatch is meanwhile."""

    point: Callable[[Scene], Callable[[], bool]]
    rules: Rules = field(default_factory=Rules)
    survives: bool = True
    """sbatch itself lives on, and so there will be a job."""


def on_disk(pattern: str) -> Callable[[Scene], Callable[[], bool]]:
    return lambda scene: exists(scene.launcher.runs, pattern)


@dataclass
class Story:
    """What was seen on the way."""

    killed: bool
    first: list[dict[str, Any]] | None
    """Status right after the kill; None: there is no experiment."""
    again: subprocess.CompletedProcess[str]
    last: list[dict[str, Any]]
    experiments: list[str]
    jobs: dict[str, str]
    ran: list[str]
    finished: bool
    """The launcher was done before it was killed, so that the next launch is another."""

    @property
    def launches(self) -> int:
        """How many there are, each with an experiment of its own."""
        return 2 if self.finished else 1


def ended_first(scene: Scene, killed: bool) -> bool:
    """Whether the launcher was quicker than its killer: a busy machine may keep either from its work for a while."""
    return not killed or exists(scene.launcher.runs, "experiments/*/*/launched")()
