"""The experiment: recipes with their executors under one title, and launching them; its bases ask and find again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nemo_launch.errors import InputError, Problem
from nemo_launch.experiments import arguments
from nemo_launch.experiments.found import Found
from nemo_launch.experiments.observing import TaskStatus

if TYPE_CHECKING:
    from nemo_launch import packaging
    from nemo_launch.executors.base import Executor, Plan, State
    from nemo_launch.experiments import adopting
    from nemo_launch.layout import TaskPaths
    from nemo_launch.recipes import Recipe, Site
    from nemo_launch.task import Task

__all__ = ["Experiment", "TaskStatus"]


class Experiment(Found):
    """Tasks that are launched together and found again by title or id.

    Names and behaviour are NeMo-Run's::

        with Experiment("demo", executor=SlurmExecutor(nodes=2)) as exp:
            a = exp.add(Script("train.py"), name="train")
            exp.add(Script("eval.sh"), name="eval", dependencies=[a])
            exp.run(detach=True)

    Args:
        title: also the name of its folder; printable, no ``/``, at most 100 bytes, not starting with ``.`` or ``-``.
        executor: where tasks run that name none themselves; default ``LocalExecutor()``.

    Nothing is written before ``run``.
    """

    def __init__(self, title: str, executor: Executor | None = None) -> None:
        super().__init__(title)
        if executor is not None:
            arguments.executor(executor, "executor")
        self.adopted = False
        """Whether ``run`` went on with an unfinished launch of the same request instead of making a new one."""
        self.ended: State | None = None
        """How that launch had ended before ``run`` came to it, in which case nothing was run; else None."""
        self.stale: list[str] = []
        """Tasks that this unfinished launch had submitted with other code than there is now."""
        self.plans: list[Plan] = []
        """What ``run`` submitted."""
        self._default = executor
        self._launching = threading.Lock()

    def __repr__(self) -> str:
        name = self.id if self._ran else self.title
        return f"Experiment({name!r}, tasks={self.task_names!r})"

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def add(
        self,
        recipe: Recipe | Sequence[Recipe],
        executor: Executor | Sequence[Executor] | None = None,
        name: str = "",
        dependencies: Sequence[str] | None = None,
        policy: str = "fail-fast",
    ) -> str:
        """Add a task (a ``Script``, or a ``Partial`` as it is now); returns its name, which later tasks depend on.

        A dependant starts when all its dependencies have succeeded, and is skipped when one did not.

        A list of recipes is a group: they run side by side in one job, with one executor for all or one for each.
        ``policy`` says how it ends: ``fail-fast`` (the first failure ends the others), ``wait-all``, or ``leader``
        (the others end when the first recipe has). A recipe that failed by itself is always the job's failure.

        Raises:
            InputError: something that is no recipe, executor or name, or the experiment was run already.
        """
        from nemo_launch import recipes
        from nemo_launch.experiments import lowering

        if self._ran or self._launching.locked():
            raise self._was_run("Experiment.add")
        if executor is None:
            if self._default is None:
                from nemo_launch.executors.local import LocalExecutor

                self._default = LocalExecutor()
            executor = self._default
        executors: list[Any] = list(executor) if isinstance(executor, (list, tuple)) else [executor]
        for one in executors:
            arguments.executor(one, "executor")
        if isinstance(recipe, (list, tuple)):
            from nemo_launch import groups

            recipe = groups.of([recipes.of(one, "add") for one in recipe], executors, policy, self._site)
        else:
            if len(executors) != 1 or policy != "fail-fast":
                fix = "Give a list of recipes, or one executor and no policy."
                raise InputError(Problem("several executors and policies are for groups", "add", fix))
            recipe = recipes.of(recipe, "add")
        after = arguments.names(dependencies, "dependencies")
        if name or not isinstance(name, str):
            arguments.text(name, "name", "a task's name")
        else:
            names = {taken for taken, *_ in self._adds}
            name = recipe.name
            for number in range(1, len(names) + 1):
                name = f"{recipe.name}_{number}" if name in names else name
        self._adds.append(lowering.Added(name, recipe, executors[0], after))
        return name

    def plan(self) -> list[Plan]:
        """Everything that ``run`` would write and submit. Has no effect.

        Raises:
            InputError: all problems of the request together.
        """
        return [executor.plan(task, self._paths_of(task.name, executor)) for task, executor in self._lowered()]

    def run(self, detach: bool = False, again: bool = False, sequential: bool = False) -> None:
        """Submit all tasks.

        Args:
            detach: return after submission instead of waiting for the end.
            again: make a new experiment even if the same request has an unfinished launch.
            sequential: each task depends on the one before it.

        Raises:
            InputError: all problems of the request; nothing was written or submitted.
            RecordError: the experiment directory cannot be written.
            SchedulerError: refused or unreachable; what was submitted before stays.
            KeyboardInterrupt: Ctrl-C while waiting. The tasks go on, and a log warning says how to find them again.
        """
        self.launch(again=again, sequential=sequential)
        if self.ended:
            _warn(
                f"{self.id} was submitted by an interrupted launch and has already ended {self.ended}: nothing new "
                "runs; again=True starts another"
            )
        self.confirm()
        if detach:
            return
        try:
            self.wait()
        except KeyboardInterrupt:
            _warn(f"it goes on: Experiment.from_id({self.id!r}) finds it again; its wait() waits, its cancel() ends it")
            raise

    def launch(self, again: bool = False, sequential: bool = False, tell: Callable[[str], None] | None = None) -> None:
        """``run`` without its end: submit, but leave the launch unconfirmed (see ``confirm``).

        ``tell`` gets what people should know meanwhile, such as what is being waited for; default: a log warning.
        """
        # Of several threads one launches: the others are told at once, as whoever comes later is.
        if not self._launching.acquire(blocking=False):
            raise self._was_run("Experiment.run")
        try:
            if self._ran:
                raise self._was_run("Experiment.run")
            self._launch(again, sequential, tell or _warn)
        finally:
            self._launching.release()

    def _launch(self, again: bool, sequential: bool, tell: adopting.Tell) -> None:
        from nemo_launch import packaging
        from nemo_launch.experiments import lowering

        if sequential:
            names = self.task_names
            self._adds = [
                lowering.Added(name, recipe, executor, tuple(dict.fromkeys((*after, *names[i - 1 : i]))))
                for i, (name, recipe, executor, after) in enumerate(self._adds)
            ]
        tasks = self._lowered()
        added = packaging.Provisional(lowering.folders(self.title, self._adds, self._home))
        try:
            self._submit(lowering.stored(tasks, self._site, added), added, again, tell)
        except BaseException:
            if os.path.lexists(self.paths.dir):
                added.keep()
            else:  # refused: nothing was submitted, and it can be run again
                added.take_back()
                self._ran, self._tasks, self.plans = False, [], []
            raise
        added.keep()

    def _submit(
        self, tasks: list[tuple[Task, Executor]], added: packaging.Provisional, again: bool, tell: adopting.Tell
    ) -> None:
        from nemo_launch.experiments import adopting, launching, lowering

        request = launching.request_digest(self.title, tasks)
        found = None if again else adopting.unfinished(self._home, self.title, request, tasks, tell)
        self.adopted = found is not None
        self.paths = found or launching.create(self._home, self.title, request, tasks)
        try:
            tasks = lowering.stored(
                tasks, self._site, added
            )  # once more, should anybody have thought them unused meanwhile
            plans = [(executor.plan(task, self._paths_of(task.name, executor)), executor) for task, executor in tasks]
        except BaseException:
            if not self.adopted:
                launching.discard(self.paths)
            raise
        self._tasks = [(task.name, task.after, executor) for task, executor in tasks]
        self._ran = True
        self.plans = [plan for plan, _ in plans]
        self.ended = launching.start(self.paths, plans, self.adopted, tell)
        if self.adopted:
            self.stale = adopting.stale([plan for plan, _ in plans])

    # -- inside -------------------------------------------------------------------------------------------------

    def _was_run(self, where: str) -> InputError:
        return InputError(Problem(f"experiment {self.id} was run already", where, "Make another one."))

    def _paths_of(self, name: str, executor: Executor) -> TaskPaths:
        return self.paths.task(name, executor.job_dir)

    def _site(self, executor: Executor) -> Site:
        from nemo_launch.experiments import lowering

        return lowering.site(executor, self._home)

    def _lowered(self) -> list[tuple[Task, Executor]]:
        from nemo_launch.experiments import lowering

        return lowering.lowered(self.title, self._adds, self._site)


def _warn(text: str) -> None:
    import logging

    logging.getLogger("nemo_launch").warning("%s", text)
