"""What became of an experiment: status, logs, waiting, cancelling. Nothing of launching is imported for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from nemo_launch import layout, records
from nemo_launch.errors import InputError, NotFound, Problem, RecordError
from nemo_launch.experiments import arguments, catalog
from nemo_launch.experiments.observing import TaskStatus, observe, refresh
from nemo_launch.layout import ExperimentPaths

if TYPE_CHECKING:
    from nemo_launch.executors.base import Executor, Job
    from nemo_launch.experiments.lowering import Added


class Asked:
    """The part of an ``Experiment`` that asks about it and ends it; ``Experiment`` itself makes and launches one."""

    def __init__(self, title: str) -> None:
        self.title = arguments.text(title, "title", "an experiment's title")
        self._home = layout.home()
        self.paths = ExperimentPaths(self._home, title, f"{title}_{int(time.time())}")
        self._adds: list[Added] = []
        self._tasks: list[tuple[str, tuple[str, ...], Executor]] = []
        self._ran = False
        self._created: float | None = None

    @property
    def id(self) -> str:
        """``<title>_<unix seconds>``; settled by ``run``."""
        return self.paths.id

    @property
    def created(self) -> float:
        """When it was launched, in unix seconds. The number in the id runs ahead after a burst of launches."""
        if self._created is None and self._ran:
            self._created = catalog.created(self.paths)
        return time.time() if self._created is None else self._created

    @property
    def task_names(self) -> list[str]:
        """In the order in which they were added."""
        return [name for name, *_ in (self._tasks or self._adds)]

    def confirm(self) -> None:
        """The user has seen the result of the launch: from now on the same request makes a new experiment."""
        with contextlib.suppress(RecordError):  # full disk: then the same request shows this one once more
            records.write_bytes(self.paths.launched, b"")

    def jobs(self) -> list[tuple[Job, Executor]]:
        """What the record says of every task, without asking the scheduler."""
        return refresh(self.paths, self._known())

    def statuses(self) -> list[TaskStatus]:
        """The truth about every task now, with one question to the scheduler for all."""
        return observe(self.jobs())

    def status(self, return_dict: bool = False) -> dict[str, dict[str, Any]] | None:
        """Print the status block, or return it as a dict by task name (NeMo-Run's keys, and more)."""
        from nemo_launch.views import block, json

        tasks = self.statuses()
        if return_dict:
            return {entry["name"]: entry for entry in json.experiment(self, tasks)["tasks"]}
        print(block.render(self, tasks))
        return None

    def wait(
        self, on_change: Callable[[list[TaskStatus]], None] | None = None, timeout: float | None = None
    ) -> list[TaskStatus]:
        """Wait until every task is final; see ``waiting.wait``."""
        from nemo_launch.experiments import waiting

        arguments.function(on_change, "on_change", "For a time limit write timeout=SECONDS.")
        arguments.seconds(timeout, "timeout")
        self._needs_run("Experiment.wait")

        return waiting.wait(self.statuses, on_change, timeout)

    def cancel(self, name: str | None = None) -> list[TaskStatus]:
        """End one task or all, for sure; tasks that have ended keep their result. Returns what all are afterwards."""
        self._needs_run("Experiment.cancel")
        chosen = self._pick(name)
        groups: dict[Executor, list[Job]] = {}
        for job, executor in self.jobs():  # no question before the order: the launcher may still be submitting
            if job.name in chosen:
                groups.setdefault(executor, []).append(job)
        for executor, jobs in groups.items():
            executor.cancel(jobs)
        if name is None:
            self.confirm()  # whoever ended a launch does not want it to be gone on with
        return self.statuses()

    def logs(
        self,
        name: str | None = None,
        follow: bool = False,
        rank: int | None = None,
        attempt: int | Literal["all"] | None = None,
    ) -> None:
        """Print the log of a task (the only one by default); see ``nemo_launch.logs.show``."""
        from nemo_launch import logs

        self._needs_run("Experiment.logs")
        (chosen, *more) = self._pick(name)
        if more:
            raise InputError(
                Problem(f"{self.id} has several tasks", "logs", f"Name one of {', '.join(self.task_names)}.")
            )
        logs.show(self, chosen, follow=follow, rank=rank, attempt=attempt)

    # -- inside -------------------------------------------------------------------------------------------------

    def _needs_run(self, where: str) -> None:
        if not self._ran:
            raise InputError(Problem(f"experiment {self.title!r} was not run yet", where, "Call run() first."))

    def _known(self) -> list[tuple[str, tuple[str, ...], Executor]]:
        return self._tasks or [(name, after, executor) for name, _, executor, after in self._adds]

    def _pick(self, name: str | None) -> list[str]:
        names = [known for known, *_ in self._known()]
        if name is None:
            return names
        if name not in names:
            raise NotFound(Problem(f"{self.id} has no task {name!r}", "task", f"It has {', '.join(names)}."))
        return [name]


def observe_all(experiments: Sequence[Asked]) -> dict[str, list[TaskStatus]]:
    """The state of every task of many experiments, with one question for all of them; by experiment id."""
    tasks = [(e, pair) for e in experiments for pair in refresh(e.paths, e._known())]
    seen = observe([pair for _, pair in tasks])
    result: dict[str, list[TaskStatus]] = {e.id: [] for e in experiments}
    for (experiment, _), status in zip(tasks, seen, strict=True):
        result[experiment.id].append(status)
    return result
