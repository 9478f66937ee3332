"""The supervisor's loop: sleeps until a child ends, a signal comes or a clock strikes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Sequence

from nemo_launch.executors.local import processes
from nemo_launch.executors.local.outside import Outside
from nemo_launch.executors.local.run import Run

#: Markers are read when the launcher says so (USR1) and, for one on another machine of a shared home, this often.
_MARKERS_SECONDS = 10.0
#: How often predecessors are looked at that another supervisor runs.
_OUTSIDE_SECONDS = 1.0
#: What a ``cancelled`` marker asks for -> seconds between TERM and KILL; others mean the task's own grace.
PATIENCE: dict[object, float | None] = {"terminate": None, "kill": 0.0}


class Loop:
    """Sees tasks through: dependencies, at most ``max_parallel`` at once, cancellation, time limits."""

    def __init__(self, tasks: Sequence[Run], outside: Sequence[Outside], max_parallel: int | None) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.outside = {task.name: task for task in outside}
        self.max_parallel = max_parallel
        if max_parallel is not None and len(tasks) > max_parallel:
            for task in tasks:
                task.said["turns"] = True  # its state file says so from the first moment on
        self._wake, wakeup = os.pipe()
        for end in (self._wake, wakeup):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        processes.adopt_orphans()

    def run(self) -> None:
        """Return when every task has come to its end."""
        markers = 0.0
        told: set[int] = set()
        while True:
            now = time.monotonic()
            self._reap()
            if signal.SIGTERM in told:  # whoever kills the job id means the jobs
                for task in self.tasks.values():
                    task.end("cancelled", task.grace)
            if signal.SIGUSR1 in told or now >= markers:
                self._read_markers()
                markers = now + _MARKERS_SECONDS
            for task in self.tasks.values():
                task.tick(now)
            self._start()
            if all(task.final for task in self.tasks.values()):
                return
            alarms = [at for task in self.tasks.values() for at in task.alarms.values()]
            if not all(other.final for other in self.outside.values()):
                alarms.append(now + _OUTSIDE_SECONDS)
            told = self._sleep(min([markers, *alarms]))

    def _sleep(self, until: float) -> set[int]:
        """Wait for signals, at most until then; those that came."""
        select.select([self._wake], [], [], max(0.0, until - time.monotonic()))
        came: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            while numbers := os.read(self._wake, 512):
                came.update(numbers)
        return came

    def _reap(self) -> None:
        """Collect the children that have ended: batch scripts, and orphans that became ours."""
        scripts = {task.process.pid: task for task in self.tasks.values() if task.process}
        while True:
            try:
                # only a look: subprocess must be the one to collect what it started
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if child is None:
                return
            task = scripts.get(child.si_pid)
            if task is not None and task.process is not None and task.process.returncode is None:
                task.process.poll()
                task.ended()
            else:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.si_pid, 0)

    def _read_markers(self) -> None:
        for task in self.tasks.values():
            if not task.final:
                with contextlib.suppress(OSError):
                    with open(task.paths.cancelled, "rb") as file:
                        how = how_to_end(file.read())
                    task.end("cancelled", PATIENCE.get(how, task.grace))

    def _start(self) -> None:
        """Start what may start; settle what never can. Once round is not enough where one decides over the next."""
        for other in self.outside.values():
            if not other.final:
                other.look()
        changed = True
        while changed:
            changed = False
            for task in self.tasks.values():
                if task.state != "waiting":
                    continue
                before = [self.tasks.get(name) or self.outside[name] for name in task.after]
                failed = next((other for other in before if other.final and not other.succeeded), None)
                running = sum(other.state == "running" for other in self.tasks.values())
                if failed is not None:
                    task.become("skipped", ended=time.time(), blame=failed.name)
                    changed = True
                elif all(other.succeeded for other in before) and running < (self.max_parallel or 10**9):
                    task.start()
                    changed = True


def how_to_end(marker: bytes) -> object:
    """The word in a ``cancelled`` marker: cancel, terminate, kill; one without a word means cancel."""
    try:
        value = json.loads(marker)
    except ValueError:
        return "cancel"
    return value.get("how", "cancel") if isinstance(value, dict) else "cancel"
