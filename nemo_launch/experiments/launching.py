"""From a checked request to submitted jobs, so that a launcher killed at any instant neither loses nor doubles one.

The order of what is written: experiment folder (exclusive mkdir), who launches, each task.json, experiment.json, then
per task intent, scheduler, id; last the ``launched`` marker, when the user has seen the result. A launch without that
marker whose launcher is dead is *unfinished*: the same request adopts it and goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from nemo_launch import here, identity, records
from nemo_launch.errors import LaunchError, SchedulerError
from nemo_launch.executors.base import Executor, Plan, State
from nemo_launch.experiments import adopting, ledger, observing
from nemo_launch.layout import ExperimentPaths
from nemo_launch.task import Task, digest


def request_digest(title: str, tasks: Sequence[tuple[Task, Executor]]) -> str:
    """Names a request by what was asked, not by when: equal launches have equal digests.

    Of the code only the script itself counts, and what a recipe in Python is made into. A job may write into its work
    dir, and then the next snapshot has another name; that must not make the same command another request, which would
    double the job.
    """
    from nemo_launch.executors import factory

    return digest(title, [[_asked(task), factory.record(executor)] for task, executor in tasks])


def _asked(task: Task) -> dict[str, Any]:
    record = task.record()
    del record["code"]
    record.pop("config", None)  # for people; what the recipe is made into has it all

    def place(path: str) -> str:
        for number, code in enumerate(task.code):
            path = path.replace(code.digest, f"code-{number}")
        return path

    program, *args = task.argv
    record["argv"] = [place(program), *args]
    record["pythonpath"] = [place(path) for path in task.pythonpath]
    if task.config is not None:
        record["recipe_digest"] = [code.digest for code in task.code if code.texts]
    with contextlib.suppress(OSError), open(program, "rb") as file:
        record["script"] = hashlib.sha256(file.read()).hexdigest()
    return record


def create(home: str, title: str, request: str, tasks: Sequence[tuple[Task, Executor]]) -> ExperimentPaths:
    """Make the experiment's folder and record; nothing stays behind when that fails."""
    from nemo_launch.executors import factory

    paths = records.claim_experiment(home, title)
    try:
        ledger.own(paths, 0)
        entries: list[dict[str, Any]] = []
        for task, executor in tasks:
            record = factory.record(executor)
            with _written(paths.dir):
                os.mkdir(os.path.join(paths.dir, task.name))
            where = paths.task(task.name, executor.job_dir)
            records.write_json(where.task, {**task.record(), "executor": record}, sync=False)
            entries.append({"name": task.name, "after": list(task.after), "executor": record})
        # last: a folder without a record is not an experiment
        records.write_json(
            paths.record,
            {
                "id": paths.id,
                "title": title,
                "created": time.time(),
                "cwd": here.known(),
                "request": request,
                "launcher": {**identity.mine(), "python": sys.executable},
                "tasks": entries,
            },
        )
    except BaseException:
        discard(paths)
        raise
    return paths


def discard(paths: ExperimentPaths, plans: Sequence[tuple[Plan, Executor]] = ()) -> None:
    """Remove an experiment of which nothing was ever submitted, and what lies in the folder that the nodes see."""
    for plan, executor in plans:
        if plan.paths.job_dir != plan.paths.dir:
            with contextlib.suppress(OSError):
                executor.transport.remove(os.path.dirname(plan.paths.job_dir))
    shutil.rmtree(paths.dir, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(paths.dir))  # the title's folder, when this was all there was in it


def submit(plans: Sequence[tuple[Plan, Executor]], book: ledger.FileLedger) -> None:
    """Submit what has no id yet, predecessors first; executors get all their tasks at once."""
    waiting = [(plan, executor) for plan, executor in plans if not book.settled(plan.task.name)]
    while waiting:
        executor = waiting[0][1]
        group: list[Plan] = []
        rest: list[tuple[Plan, Executor]] = []
        for plan, other in waiting:
            ready = not any(name in {p.task.name for p, _ in rest} for name in plan.task.after)
            if other is executor and ready:
                group.append(plan)
            else:
                rest.append((plan, other))
        executor.submit(group, book)
        waiting = rest


def nothing_submitted(paths: ExperimentPaths, names: Sequence[str]) -> bool:
    """Whether no task has an intent or an id, so that the folder may go."""
    return not any(os.path.exists(p.intent) or os.path.exists(p.handle) for p in map(paths.task, names))


def start(
    paths: ExperimentPaths, plans: Sequence[tuple[Plan, Executor]], adopted: bool, tell: adopting.Tell
) -> State | None:
    """Submit an experiment's plans; an experiment of which nothing came to be is removed again.

    Returns:
        How an adopted launch had ended before this one came to it; None: it had not, or is a new one.

    Raises:
        SchedulerError: refused or unreachable. What was submitted before stays and can be cancelled.
        RecordError: the record could not be written.
    """
    book = ledger.FileLedger({plan.task.name: plan.paths for plan, _ in plans})
    names = [plan.task.name for plan, _ in plans]
    try:
        over = None
        if adopted:
            adopting.go_on(plans, book, tell)
            with contextlib.suppress(SchedulerError):
                known = [(plan.task.name, plan.task.after, executor) for plan, executor in plans]
                over = adopting.ended(observing.observe(observing.refresh(paths, known)))
        submit(plans, book)
        return over
    except LaunchError:
        if nothing_submitted(paths, names):
            discard(paths, plans)
        raise
    finally:
        ledger.left(paths)


@contextlib.contextmanager
def _written(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise records.unwritable(path, error) from error
