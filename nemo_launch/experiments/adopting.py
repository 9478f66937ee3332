"""Going on with a launch that was cut off, so that the same command again neither loses nor doubles a job."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence

from nemo_launch import layout, records
from nemo_launch.errors import RecordError, SchedulerError, Unreachable
from nemo_launch.executors.base import Executor, Job, Plan, State
from nemo_launch.experiments import ledger, observing
from nemo_launch.layout import ExperimentPaths
from nemo_launch.task import Task

Tell = Callable[[str], None]
"""Takes a line for people, while there is something to wait for or to know."""

_ADOPT_AMONG_NEWEST = 20
#: The same command this soon after its launcher's last sign of life is taken for another try of the same launch,
#: whatever became of its jobs; later, one that did not succeed is history.
_RETRY_SECONDS = 600.0
#: How long an adopting launch waits for a scheduler call of the dead launcher that still runs.
_IN_FLIGHT_SECONDS = 180.0
#: The same where no such call is left, but the scheduler does not say whether it has the job.
_NO_ANSWER_SECONDS = 15.0
#: How long a launch waits for another process that has adopted the same one: that may itself wait for a call.
_ADOPTER_SECONDS = _IN_FLIGHT_SECONDS + 60.0
#: The same for a launcher on another machine, of which only its files can be seen.
_FAR_SECONDS = 10.0


def unfinished(
    home: str, title: str, request: str, tasks: Sequence[tuple[Task, Executor]], tell: Tell
) -> ExperimentPaths | None:
    """The newest launch of the same request whose launcher died before its end, owned by this process from now on.

    Where another process is already going on with it, this one waits for that: it may die as well. One that was cut
    off a while ago and whose tasks have ended without success since is not gone on with: the command is given again
    because the cause is gone.
    """
    folder = os.path.join(layout.experiments(home), title)
    ids = sorted((name for name in _listdir(folder)), reverse=True)
    for name in ids[:_ADOPT_AMONG_NEWEST]:
        paths = ExperimentPaths(home, title, name)
        if os.path.exists(paths.launched):
            continue
        with contextlib.suppress(RecordError):
            record = records.read_json(paths.record)
            if record is None or record.get("request") != request:
                continue
            if over := _over_long_ago(paths, tasks):
                tell(f"an earlier launch of this was interrupted, and its run {name} ended {over}; this is a new one")
                records.write_bytes(paths.launched, b"")  # known now, and not looked at again
            elif _taken_over(paths, tell):
                return paths
    return None


def _over_long_ago(paths: ExperimentPaths, tasks: Sequence[tuple[Task, Executor]]) -> State | None:
    """How a launch ended that nobody can still mean to go on with; None: it is to be gone on with."""
    try:
        alive, launchers = ledger.launcher_alive(paths)
        jobs = _jobs(paths, tasks)
        if alive is not False or time.time() - _last_sign(paths, launchers, jobs) < _RETRY_SECONDS:
            return None
        over = ended(observing.observe(jobs))
    except (SchedulerError, RecordError):
        return None  # going on with it says what is wrong
    return over if over is not State.SUCCEEDED else None


def _last_sign(paths: ExperimentPaths, launchers: int, jobs: Sequence[tuple[Job, Executor]]) -> float:
    """When a launcher wrote something last. Ids do not count: whoever asks for the status may have written them."""
    times = [(records.read_json(paths.launcher(number)) or {}).get("time") for number in range(launchers)]
    times += [job.intended for job, _ in jobs]
    return max((float(t) for t in times if isinstance(t, (int, float))), default=0.0)


def _jobs(paths: ExperimentPaths, tasks: Sequence[tuple[Task, Executor]]) -> list[tuple[Job, Executor]]:
    return observing.refresh(paths, [(task.name, task.after, executor) for task, executor in tasks])


def ended(statuses: Sequence[observing.TaskStatus]) -> State | None:
    """What became of tasks of which none runs or can still start (the worst of it); None: one of them does, or can."""
    states: dict[str, State] = {}
    for status in statuses:
        state = status.observation.state
        if not state.final:
            lost = any(states.get(name) in (State.FAILED, State.CANCELLED) for name in status.job.after)
            if not (lost and status.observation.extra.get("stalled")):
                return None
            state = State.CANCELLED
        states[status.name] = state
    return next((s for s in (State.FAILED, State.CANCELLED) if s in states.values()), State.SUCCEEDED)


def _taken_over(paths: ExperimentPaths, tell: Tell) -> bool:
    """Whether this launch is ours now, or was brought to its end by another adopter; False: its launcher is at it."""
    began, told = time.monotonic(), False
    while True:
        alive, number = ledger.launcher_alive(paths)
        if os.path.exists(paths.launched):
            return number > 1
        if alive and number <= 1:
            return False  # somebody launches the same at the same time: two launches were asked for
        if alive is False and ledger.own(paths, number):
            return True
        host = (records.read_json(paths.launcher(max(0, number - 1))) or {}).get("host", "another machine")
        if not told:
            tell(f"a process on {host} is going on with {paths.id}, a launch of the same request; waiting for it")
            told = True
        if time.monotonic() - began > (_FAR_SECONDS if alive is None else _ADOPTER_SECONDS):
            raise Unreachable(
                f"{paths.id} is an unfinished launch of the same request, and a process on {host} may still be at "
                f"it (record: {paths.dir}). Run the same command again there, or later, or add --again to start "
                "another experiment."
            )
        time.sleep(0.2)


def settle(jobs: Sequence[tuple[Job, Executor]], tell: Tell) -> None:
    """Find out what became of the dead launcher's scheduler calls; wait for one that still runs.

    Raises:
        Unreachable: it cannot be said in reasonable time; submitting again might double a job.
    """
    began, told = time.monotonic(), False
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
            if not told:
                tell(
                    f"an earlier launch of the same request was interrupted while {lost[0][0].name} was being "
                    "submitted; waiting until it is known whether the scheduler has it"
                )
                told = True
            time.sleep(1.0)


def _calls(lost: Sequence[tuple[Job, Executor]]) -> bool:
    """Whether a call of the dead launcher still runs; else it is the scheduler that does not answer."""
    return any(e.kind == "local" or e.transport.pids_mentioning(job.paths.script) for job, e in lost)


def go_on(plans: Sequence[tuple[Plan, Executor]], book: ledger.FileLedger, tell: Tell) -> None:
    """Settle what a dead launcher left: ids not recorded, tasks whose turn cannot come, code that changed since."""
    settle([(ledger.read_job(plan.task.name, plan.paths), executor) for plan, executor in plans], tell)
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


def _listdir(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
