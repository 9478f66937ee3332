"""From a checked request to submitted jobs, so that a launcher killed at any instant neither loses nor doubles one.

The order of what is written: experiment folder (exclusive mkdir), who launches, each task.json, experiment.json, then
per task intent, scheduler, id; last the ``launched`` marker, when the user has seen the result. A launch without that
marker whose launcher is dead is *unfinished*: the same request adopts it and goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from nemo_launch import identity, ledger, records
from nemo_launch.errors import RecordError, SchedulerError, Unreachable
from nemo_launch.executors.base import Executor, Job, Plan
from nemo_launch.records import ExperimentPaths
from nemo_launch.task import Task, digest

_ADOPT_AMONG_NEWEST = 20
#: How long an adopting launch waits for a scheduler call of the dead launcher that still runs.
_IN_FLIGHT_SECONDS = 180.0


def request_digest(title: str, tasks: Sequence[tuple[Task, Executor]]) -> str:
    """Names a request by what was asked, not by when: equal launches have equal digests."""
    from nemo_launch.executors import factory

    return digest(title, [[task.record(), factory.record(executor)] for task, executor in tasks])


def unfinished(home: str, title: str, request: str) -> ExperimentPaths | None:
    """The newest launch of the same request whose launcher died before its end, owned by this process from now on."""
    folder = os.path.join(home, "experiments", title)
    ids = sorted((name for name in _listdir(folder)), reverse=True)
    for name in ids[:_ADOPT_AMONG_NEWEST]:
        paths = ExperimentPaths(home, title, name)
        if os.path.exists(paths.launched):
            continue
        with contextlib.suppress(RecordError):
            record = records.read_json(paths.record)
            if record is None or record.get("request") != request:
                continue
            alive, number = ledger.launcher_alive(paths)
            if not alive and ledger.own(paths, number):
                return paths
    return None


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
            where = paths.task(task.name, job_dir(executor))
            records.write_json(where.task, {**task.record(), "executor": record}, sync=False)
            entries.append({"name": task.name, "after": list(task.after), "executor": record})
        # last: a folder without a record is not an experiment
        records.write_json(
            paths.record,
            {
                "id": paths.id,
                "title": title,
                "created": time.time(),
                "cwd": os.getcwd(),
                "request": request,
                "launcher": {**identity.mine(), "python": sys.executable},
                "tasks": entries,
            },
        )
    except BaseException:
        discard(paths)
        raise
    return paths


def discard(paths: ExperimentPaths) -> None:
    """Remove an experiment of which nothing was ever submitted."""
    shutil.rmtree(paths.dir, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(paths.dir))  # the title's folder, when this was all there was in it


def settle(jobs: Sequence[tuple[Job, Executor]]) -> None:
    """Find out what became of the dead launcher's scheduler calls; wait for one that still runs.

    Raises:
        Unreachable: it cannot be said in reasonable time; submitting again might double a job.
    """
    from nemo_launch.executors.base import Recovery

    lost = [(job, executor) for job, executor in jobs if job.intended is not None and job.handle is None]
    deadline = time.monotonic() + _IN_FLIGHT_SECONDS
    while lost:
        open_ends = []
        for job, executor in lost:
            answer = executor.recover([job])[job.key]
            if answer is Recovery.IN_FLIGHT:
                open_ends.append((job, executor))
            elif answer is not Recovery.GONE:
                ledger.write_handle(job.paths, answer)
        lost = open_ends
        if lost and time.monotonic() > deadline:
            raise Unreachable(
                f"an earlier launch of the same request died while {lost[0][0].name} was being submitted, and whether "
                f"the scheduler has it cannot be said yet (record: {lost[0][0].paths.dir}). Run the same command again "
                "later, or add --again to start another experiment."
            )
        if lost:
            time.sleep(1.0)


def submit(plans: Sequence[tuple[Plan, Executor]], book: ledger.FileLedger) -> None:
    """Submit what has no id yet, predecessors first; executors get all their tasks at once."""
    waiting = [(plan, executor) for plan, executor in plans if book.handle(plan.task.name) is None]
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


def job_dir(executor: Executor) -> str | None:
    """The folder that the nodes see, where the executor names one."""
    value = getattr(executor.config, "job_dir", None)
    return os.path.abspath(os.path.expanduser(value)) if value else None


def start(paths: ExperimentPaths, plans: Sequence[tuple[Plan, Executor]], adopted: bool) -> None:
    """Submit an experiment's plans; an experiment of which nothing came to be is removed again.

    Raises:
        SchedulerError: refused or unreachable. What was submitted before stays and can be cancelled.
        RecordError: the record could not be written.
    """
    book = ledger.FileLedger({plan.task.name: plan.paths for plan, _ in plans})
    names = [plan.task.name for plan, _ in plans]
    if adopted:
        settle([(ledger.read_job(plan.task.name, plan.paths), executor) for plan, executor in plans])
    try:
        submit(plans, book)
    except (SchedulerError, RecordError):
        if nothing_submitted(paths, names):
            discard(paths)
        raise
    finally:
        book.sync()


def refresh(
    paths: ExperimentPaths, tasks: Sequence[tuple[str, tuple[str, ...], Executor]]
) -> list[tuple[Job, Executor]]:
    """The record's view of every task, read anew."""
    return [
        (ledger.read_job(name, paths.task(name, job_dir(executor)), after), executor) for name, after, executor in tasks
    ]


def _listdir(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def _written(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise records.unwritable(path, error) from error
