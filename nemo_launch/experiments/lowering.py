"""From recipes and executors to tasks, with every problem of the whole request in one error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from nemo_launch import environment, here, layout, packaging
from nemo_launch.errors import InputError, Problem, SchedulerError
from nemo_launch.executors.base import Executor
from nemo_launch.recipes import Recipe, Site
from nemo_launch.task import Task
from nemo_launch.transport import LocalTransport


class Added(NamedTuple):
    """What ``Experiment.add`` was given."""

    name: str
    recipe: Recipe
    executor: Executor
    after: tuple[str, ...]
    """Names of the tasks that it depends on."""


def lowered(title: str, added: Sequence[Added], site: Callable[[Executor], Site]) -> list[tuple[Task, Executor]]:
    """Every recipe as a task; reads, writes nothing.

    Raises:
        InputError: all problems, those that the executors find included.
        SchedulerError: there is none, but an executor that had to ask got no answer.
    """
    problems = [*_names(title, [one.name for one in added]), *_dependencies(added)]
    if not added:
        problems.append(Problem("the experiment has no task", "Experiment.run", "Add one with add()."))
    tasks: list[tuple[Task, Executor]] = []
    with packaging.shared():
        for one in added:
            try:
                tasks.append((one.recipe.lower(one.name, site(one.executor), one.after), one.executor))
            except InputError as error:
                problems += error.problems
    parts = [part for task, executor in tasks for part in _parts(task, executor)]
    executors = list(dict.fromkeys([*(one.executor for one in added), *(executor for _, executor in parts)]))
    problems += [problem for executor in executors for problem in _no_folders(executor)]
    for executor in executors:
        try:
            problems += executor.check([task for task, other in parts if other is executor], title)
        except SchedulerError:
            if not problems:  # else those are told, whether anybody answers or not
                raise
    problems += _mixed_dependencies(tasks)
    if problems:
        raise InputError(dict.fromkeys(problems))
    return tasks


def _parts(task: Task, executor: Executor) -> list[tuple[Task, Executor]]:
    """A task, or the commands of a group, each with its executor."""
    return [(member.task, member.executor) for member in task.members] or [(task, executor)]


def site(executor: Executor, home: str) -> Site:
    """What lowering needs to know of the place where an executor's tasks run."""
    config = executor.config
    work_dir = here.absolute(config.work_dir or here.directory())
    base = executor.job_dir or home
    given = (config.log_dir, config.cache_dir, config.data_dir)
    leave_out = [layout.experiments(home), layout.snapshots(home), base]
    leave_out += [
        here.absolute(folder) for folder in (*given, *environment.own_caches(config, work_dir).values()) if folder
    ]
    return Site(config, work_dir, layout.snapshots(base), tuple(p for p in leave_out if p != work_dir))


def stored(
    tasks: Sequence[tuple[Task, Executor]], site: Callable[[Executor], Site], added: packaging.Provisional
) -> list[tuple[Task, Executor]]:
    """Write the snapshots; a file that was edited meanwhile is taken as it was copied, and the task follows."""

    def one(task: Task, executor: Executor) -> Task:
        members = tuple(replace(member, task=one(member.task, member.executor)) for member in task.members)
        return replace(packaging.stored(task, site(executor).snapshots, added), members=members)

    return [(one(task, executor), executor) for task, executor in tasks]


def folders(title: str, added: Sequence[Added], home: str) -> list[str]:
    """Those that a launch makes where there are none, beside the experiment's own."""
    found = [os.path.join(layout.experiments(home), title)]
    for executor in dict.fromkeys(one.executor for one in added):
        found.append(site(executor, home).snapshots)
        if folder := executor.job_dir:
            found.append(os.path.join(folder, title))
    return found


def _names(title: str, names: Sequence[str]) -> Iterator[Problem]:
    yield from _no_folder(title, "title")
    for name in names:
        if name != title:
            yield from _no_folder(name, "task")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(f"two tasks are called {name!r}", "name")


def _no_folder(name: str, what: str) -> Iterator[Problem]:
    if not name or not name.isprintable() or "/" in name or name[0] in ".-" or len(os.fsencode(name)) > 100:
        fix = "Use printable characters without /, at most 100 bytes, not starting with . or -."
        yield Problem(f"{name!r} cannot be a {what}, because a folder gets its name", what, fix)


def _no_folders(executor: Executor) -> Iterator[Problem]:
    """What was named as a folder and is a file. One that is not there yet is no mistake."""
    if not isinstance(executor.transport, LocalTransport):
        return
    for field in ("log_dir", "cache_dir", "data_dir", "job_dir"):
        path = getattr(executor.config, field, None)
        if path and os.path.exists(path) and not os.path.isdir(path):
            yield Problem(f"{path} is not a directory", field, "Name another.")


def _dependencies(added: Sequence[Added]) -> Iterator[Problem]:
    for index, one in enumerate(added):
        for other in one.after:
            if other not in [before.name for before in added[:index]]:
                what = f"{one.name!r} depends on {other!r}, which is not a task added before it"
                yield Problem(what, "dependencies")


def _mixed_dependencies(tasks: Sequence[tuple[Task, Executor]]) -> Iterator[Problem]:
    """A scheduler can only wait for its own jobs."""
    kinds = {task.name: (executor.kind, executor.transport.name) for task, executor in tasks}
    for task, _ in tasks:
        for other in task.after:
            if other in kinds and kinds[other] != kinds[task.name]:
                what = f"{task.name!r} on {kinds[task.name][0]} cannot depend on {other!r} on {kinds[other][0]}"
                fix = "Run both on the same kind of executor, or one experiment after the other."
                yield Problem(what, "dependencies", fix)
