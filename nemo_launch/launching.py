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

from nemo_launch import identity, ledger, records
from nemo_launch.errors import RecordError, SchedulerError, Unreachable
from nemo_launch.executors.base import Executor, Job, Plan, State
from nemo_launch.records import ExperimentPaths
from nemo_launch.task import Task, digest

_ADOPT_AMONG_NEWEST = 20
#: How long an adopting launch waits for a scheduler call of the dead launcher that still runs.
_IN_FLIGHT_SECONDS = 180.0
#: The same where no such call is left, but the scheduler does not say whether it has the job.
_NO_ANSWER_SECONDS = 15.0
#: How long a launch waits for another process that has adopted the same one: that may itself wait for a call.
_ADOPTER_SECONDS = _IN_FLIGHT_SECONDS + 60.0
#: The same for a launcher on another machine, of which only its files can be seen.
_FAR_SECONDS = 10.0


def request_digest(title: str, tasks: Sequence[tuple[Task, Executor]]) -> str:
    """Names a request by what was asked, not by when: equal launches have equal digests.

    Of the code only the script itself counts. A job may write into its work dir, and then the next snapshot has
    another name; that must not make the same command another request, which would double the job.
    """
    from nemo_launch.executors import factory

    return digest(title, [[_asked(task), factory.record(executor)] for task, executor in tasks])


def _asked(task: Task) -> dict[str, Any]:
    record = task.record()
    del record["code"]

    def place(path: str) -> str:
        for number, code in enumerate(task.code):
            path = path.replace(code.digest, f"code-{number}")
        return path

    program, *args = task.argv
    record["argv"] = [place(program), *args]
    record["pythonpath"] = [place(path) for path in task.pythonpath]
    with contextlib.suppress(OSError), open(program, "rb") as file:
        record["script"] = hashlib.sha256(file.read()).hexdigest()
    return record


def unfinished(home: str, title: str, request: str) -> ExperimentPaths | None:
    """The newest launch of the same request whose launcher died before its end, owned by this process from now on.

    Where another process is already going on with it, this one waits for that: it may die as well.
    """
    folder = os.path.join(records.experiments(home), title)
    ids = sorted((name for name in _listdir(folder)), reverse=True)
    for name in ids[:_ADOPT_AMONG_NEWEST]:
        paths = ExperimentPaths(home, title, name)
        if os.path.exists(paths.launched):
            continue
        with contextlib.suppress(RecordError):
            record = records.read_json(paths.record)
            if record is not None and record.get("request") == request and _taken_over(paths):
                return paths
    return None


def _taken_over(paths: ExperimentPaths) -> bool:
    """Whether this launch is ours now, or was brought to its end by another adopter; False: its launcher is at it."""
    began = time.monotonic()
    while True:
        alive, number = ledger.launcher_alive(paths)
        if os.path.exists(paths.launched):
            return number > 1
        if alive and number <= 1:
            return False  # somebody launches the same at the same time: two launches were asked for
        if alive is False and ledger.own(paths, number):
            return True
        if time.monotonic() - began > (_FAR_SECONDS if alive is None else _ADOPTER_SECONDS):
            host = (records.read_json(paths.launcher(max(0, number - 1))) or {}).get("host", "another machine")
            raise Unreachable(
                f"{paths.id} is an unfinished launch of the same request, and a process on {host} may still be at "
                f"it (record: {paths.dir}). Run the same command again there, or later, or add --again to start "
                "another experiment."
            )
        time.sleep(0.2)


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


def discard(paths: ExperimentPaths, plans: Sequence[tuple[Plan, Executor]] = ()) -> None:
    """Remove an experiment of which nothing was ever submitted, and what lies in the folder that the nodes see."""
    for plan, executor in plans:
        if plan.paths.job_dir != plan.paths.dir:
            with contextlib.suppress(OSError):
                executor.transport.remove(os.path.dirname(plan.paths.job_dir))
    shutil.rmtree(paths.dir, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(paths.dir))  # the title's folder, when this was all there was in it


def settle(jobs: Sequence[tuple[Job, Executor]]) -> None:
    """Find out what became of the dead launcher's scheduler calls; wait for one that still runs.

    Raises:
        Unreachable: it cannot be said in reasonable time; submitting again might double a job.
    """
    from nemo_launch import observing

    began = time.monotonic()
    lost = [(job, executor) for job, executor in jobs if job.intended is not None and job.handle is None]
    while lost:
        found, open_ends = observing.recover(lost)
        for job in found.values():
            if job.handle and not os.path.exists(job.paths.handle):
                ledger.write_handle(job.paths, job.handle)  # going on without it would double the job
        lost = [(job, executor) for job, executor in lost if job.key in open_ends]
        if lost and time.monotonic() - began > (_IN_FLIGHT_SECONDS if _calls(lost) else _NO_ANSWER_SECONDS):
            raise Unreachable(
                f"an earlier launch of the same request died while {lost[0][0].name} was being submitted, and whether "
                f"the scheduler has it cannot be said yet (record: {lost[0][0].paths.dir}). Run the same command again "
                "later, or add --again to start another experiment."
            )
        if lost:
            time.sleep(1.0)


def _calls(lost: Sequence[tuple[Job, Executor]]) -> bool:
    """Whether a call of the dead launcher still runs; else it is the scheduler that does not answer."""
    return any(e.kind == "local" or e.transport.pids_mentioning(job.paths.script) for job, e in lost)


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
    try:
        if adopted:
            _go_on(plans, book)
        submit(plans, book)
    except (SchedulerError, RecordError):
        if nothing_submitted(paths, names):
            discard(paths, plans)
        raise
    finally:
        ledger.left(paths)


def _go_on(plans: Sequence[tuple[Plan, Executor]], book: ledger.FileLedger) -> None:
    """Settle what a dead launcher left: ids not recorded, tasks whose turn cannot come, code that changed since."""
    settle([(ledger.read_job(plan.task.name, plan.paths), executor) for plan, executor in plans])
    left = [(plan, executor) for plan, executor in plans if book.handle(plan.task.name) is None]
    needed = {name for plan, _ in left for name in plan.task.after}
    failed: set[str] = set()
    for plan, executor in plans:
        name = plan.task.name
        job = ledger.read_job(name, plan.paths, plan.task.after)
        if job.handle is None:
            before = [other for other in plan.task.after if other in failed]
            if before:
                book.skip(plan, before[0])
                failed.add(name)
            else:
                record = records.read_json(plan.paths.task) or {}
                records.write_json(plan.paths.task, {**record, **plan.task.record()})
        elif name in needed and executor.poll([job])[job.key].state in (State.FAILED, State.CANCELLED):
            failed.add(name)


def stale(plans: Sequence[Plan]) -> list[str]:
    """Names of tasks that an earlier launch submitted with other code than there is now."""
    found = []
    for plan in plans:
        record = records.read_json(plan.paths.task) or {}
        if [code.get("digest") for code in record.get("code", ())] != [code.digest for code in plan.task.code]:
            found.append(plan.task.name)
    return found


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
