"""The record of a submission, written as it happens: intent before the scheduler is called, id right after."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from nemo_launch import identity, records
from nemo_launch.errors import RecordError
from nemo_launch.executors.base import Handle, Job, Plan
from nemo_launch.layout import ExperimentPaths, TaskPaths


class FileLedger:
    """Intents and ids in the tasks' folders (see ``base.Ledger``)."""

    def __init__(self, tasks: dict[str, TaskPaths]) -> None:
        self._tasks = tasks

    def intend(self, plan: Plan) -> None:
        """About to submit: whoever comes after this process sees it, however that ends.

        Not waiting for the disk: fifty tasks would wait fifty times. What a machine that dies takes with it is made up
        for by ``read_job``, which knows from the experiment's own record (that one is on disk) who launched it.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(plan.paths.refused)
        intent = {"time": time.time(), "tag": plan.paths.script, **identity.mine()}
        records.write_json(plan.paths.intent, intent, sync=False)

    def submitted(self, plan: Plan, handle: Handle) -> None:
        """The scheduler gave it this id."""
        try:
            write_handle(plan.paths, handle, sync=False)  # as above: the job is found again by its script
        except RecordError as error:
            raise RecordError(
                f"{plan.task.name} was submitted as job {handle}, but its id could not be recorded: {error} "
                "The job is not lost: once there is room, status finds it by its script."
            ) from error

    def withdrawn(self, plan: Plan) -> None:
        """The scheduler was not called after all."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(plan.paths.intent)

    def refused(self, plan: Plan, reason: str) -> None:
        """The scheduler said no for certain: there is no such job, and the next launch may try again."""
        with contextlib.suppress(RecordError):
            records.write_json(plan.paths.refused, {"time": time.time(), "reason": reason})
        self.withdrawn(plan)

    def skip(self, plan: Plan, failed: str) -> None:
        """It can never start, because ``failed`` did not succeed."""
        reason = f"not started: {failed} did not succeed"
        records.write_json(plan.paths.refused, {"time": time.time(), "reason": reason, "skipped": True})
        self.withdrawn(plan)

    def settled(self, name: str) -> bool:
        """Whether there is nothing left to do for a task: it has an id, or can never start."""
        paths = self._tasks[name]
        return self.handle(name) is not None or bool((records.read_json(paths.refused) or {}).get("skipped"))

    def handle(self, name: str) -> Handle | None:
        """Id of a task of this experiment."""
        return read_job(name, self._tasks[name]).handle if name in self._tasks else None


def write_handle(paths: TaskPaths, handle: Handle, sync: bool = True) -> None:
    """Record a job's id."""
    records.write_json(paths.handle, {"time": time.time(), **handle.record()}, sync=sync)


def read_job(name: str, paths: TaskPaths, after: tuple[str, ...] = ()) -> Job:
    """What the record says of one task. Id and intent stand in for each other where one is damaged.

    Both may be missing or damaged because the launcher's machine died before they were on its disk. So where a dead
    launcher ran on another machine, or on this one before it started anew, the task counts as intended: the scheduler
    is asked.

    Raises:
        RecordError: what is left says nothing of the job.
    """
    damage: list[RecordError] = []
    intent = _readable(paths.intent, damage)
    known = _readable(paths.handle, damage)
    if known and not isinstance(known.get("job_id"), str):
        damage.append(RecordError(f"{paths.handle} is damaged: it has no job id. Move it away to go on without it."))
        known = {}
    intended = _time(intent)
    if not (intent or known):
        if _lost_with_machine(paths):
            intended = 0.0
        elif damage:  # without an id the job is found by its script
            raise damage[-1]
    if intended == 0.0:
        intended = _made(paths)
    return Job(
        name=name,
        paths=paths,
        handle=Handle.load(known) if known else None,
        intended=intended,
        submitted=_time(known),
        after=after,
    )


def _readable(path: str, damage: list[RecordError]) -> dict[str, Any]:
    try:
        return records.read_json(path) or {}
    except RecordError as error:
        damage.append(error)
        return {}


def _time(record: dict[str, Any]) -> float | None:
    value = record.get("time")
    # one without a readable time was written all the same
    return value if isinstance(value, (int, float)) else 0.0 if record else None


def _lost_with_machine(task: TaskPaths) -> bool:
    """Whether what a launcher wrote last may be lost: it is gone, and so may be the machine that it ran on.

    Each but the newest is gone, for only then another takes over.
    """
    paths = ExperimentPaths.around(task)
    with contextlib.suppress(RecordError):
        alive, count = launcher_alive(paths)
        gone = [records.read_json(paths.launcher(n)) or {} for n in range(count if alive is False else count - 1)]
        return any(launcher.get("boot", "") not in ("", identity.boot_id()) for launcher in gone)
    return False


def _made(task: TaskPaths) -> float:
    """The second in which the experiment was made, which its id carries."""
    second = ExperimentPaths.around(task).id.rpartition("_")[2]
    return float(second) if second.isdecimal() else 0.0


#: A launcher on another machine cannot be seen; after this many seconds its sbatch is taken for dead
#: (sbatch itself gives up on a silent controller within a few minutes).
_FAR_LAUNCHER_SECONDS = 600


#: Launches that this very process is at: it lives on when one of them fails, as in a notebook.
_under_way: set[str] = set()


def launcher_alive(paths: ExperimentPaths) -> tuple[bool | None, int]:
    """Whether the process that launches this experiment is still at it, and how many have launched it so far.

    None: it ran on another machine not long ago, and that cannot be seen from here.
    """
    number = max(0, _launchers(paths) - 1)
    owner = records.read_json(paths.launcher(number))
    if owner is None:
        return False, 0
    state = identity.alive(owner)
    if state is None:
        state = None if time.time() - float(owner.get("time", 0)) < _FAR_LAUNCHER_SECONDS else False
    elif state and int(owner["pid"]) == os.getpid():
        state = paths.dir in _under_way
    return state, number + 1


def _launchers(paths: ExperimentPaths) -> int:
    number = 0
    while os.path.exists(paths.launcher(number)):
        number += 1
    return number


def own(paths: ExperimentPaths, number: int) -> bool:
    """Become launcher number n of this experiment; False when another process was quicker."""
    mine = records.create_json(paths.launcher(number), {"time": time.time(), **identity.mine()})
    if mine:
        _under_way.add(paths.dir)
    return mine


def left(paths: ExperimentPaths) -> None:
    """This process has done what it could for the launch."""
    _under_way.discard(paths.dir)
