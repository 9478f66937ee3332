"""Recipe -> Task. A recipe says what to run; ``lower`` turns it into words, environment and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.task import Task


@dataclass(frozen=True)
class Site:
    """What lowering needs to know of the place: never the experiment's id, so that equal requests lower equally."""

    config: ExecutorConfig
    work_dir: str
    """Absolute."""
    snapshots: str
    """Folder of the snapshots as the nodes see it."""
    leave_out: tuple[str, ...] = ()
    """Absolute folders that are never part of a snapshot (experiments, logs, caches, data)."""
    store: bool = False
    """Write the snapshot now; false: only name it (dry run)."""


class Recipe(Protocol):
    """What ``Experiment.add`` accepts."""

    @property
    def name(self) -> str:
        """Default name of the task."""

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """The task.

        Raises:
            InputError: every reason why it cannot run.
        """


@dataclass(frozen=True)
class Script:
    """A script file, or a script given as text, with its arguments. Never imported or executed by the launcher.

    Args:
        path: absolute, or relative to the work dir, the current directory or ``recipes/``; ``.py`` runs under Python,
            anything else by its shebang, else by bash (sh where there is no bash).
        inline: the text of a shell script instead of a path.
        args: the script's arguments, passed on untouched.
        env: environment of this task; wins over the executor's.
        entrypoint: interpreter to use instead (``bash``, ``python``).
    """

    path: str | None = None
    inline: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    entrypoint: str | None = None
