"""What the verbs share: naming experiments and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus


def experiment(text: str | None) -> Experiment:
    """By id or title; None: the newest of all.

    Raises:
        NotFound: there is none.
    """
    from nemo_launch.experiments.experiment import Experiment

    if text is not None:
        return Experiment.find(text)
    newest = Experiment.newest()
    if newest is None:
        from nemo_launch import layout
        from nemo_launch.errors import NotFound, Problem

        raise NotFound(
            Problem(f"there is no experiment in {layout.home()} yet", "", "NEMORUN_HOME names the directory.")
        )
    return newest


def task(owner: Experiment, name: str) -> str:
    """A task by its name or its number in the status block.

    Raises:
        NotFound: there is none.
    """
    names = owner.task_names
    if name in names:
        return name
    if name.isascii() and name.isdigit() and int(name) < len(names):
        return names[int(name)]
    from nemo_launch.config.hints import did_you_mean
    from nemo_launch.errors import NotFound, Problem

    hint = did_you_mean(name, names) or f"It has {', '.join(names)}."
    raise NotFound(Problem(f"{owner.id} has no task {name!r}", "", hint))


def own_code(statuses: list[TaskStatus]) -> int:
    """The exit code of the first task that did not succeed, 128 and more for a signal; 1 where it is not known."""
    for status in statuses:
        if status.observation.state != "SUCCEEDED":
            return status.observation.exit_code or 1
    return 0


def verdict(statuses: list[TaskStatus]) -> int:
    """Exit code after waiting: 0 when all succeeded, else 1."""
    return 0 if all(status.observation.state == "SUCCEEDED" for status in statuses) else 1
