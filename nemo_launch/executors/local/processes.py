"""The processes of a task, found by what they cannot shed by moving: their parent, their session, their environment.

torchrun starts its workers in sessions of their own, and a child of a child may outlive both, so no single mark is
enough: a task's processes are the descendants of its batch script, whatever is in that script's session, and every
process that has the task's directory in its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

from nemo_launch import identity

#: Set for every process of a task; its value is the task's directory, which no other task has.
MARKER = "NEMO_LAUNCH_TASK_DIR"
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """One process that is not a zombie; pid and start together name it for good (within one boot)."""

    pid: int
    start: int
    parent: int
    session: int


def table() -> dict[int, Process]:
    """All processes by pid."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := identity.stat(int(entry))):
            found[int(entry)] = Process(int(entry), int(fields[19]), int(fields[1]), int(fields[3]))
    return found


def _mark(pid: int) -> bytes | None:
    """The task directory in its environment; None: there is none, or it is another user's."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == os.fsencode(MARKER):
                return value
    return None


class Snapshot:
    """All processes and their marks at one moment, for questions about many tasks."""

    def __init__(self) -> None:
        self.table = table()
        self.marked: dict[bytes, set[Process]] = {}
        self.children: dict[int, list[Process]] = {}
        for process in self.table.values():
            self.children.setdefault(process.parent, []).append(process)
            mark = _mark(process.pid)
            if mark is not None:
                self.marked.setdefault(mark, set()).add(process)

    def members(self, directory: str, root: int | None = None, start: int | None = None) -> set[Process]:
        """The processes of the task with this directory; ``root`` and its start time name its batch script."""
        found = set(self.marked.get(os.fsencode(directory), ()))
        if root in self.table and self.table[root].start == start:
            # Only while the script lives: afterwards its number may be another session's.
            found |= {process for process in self.table.values() if root in (process.pid, process.session)}
        ahead = list(found)
        while ahead:
            for child in self.children.get(ahead.pop().pid, ()):
                if child not in found:
                    found.add(child)
                    ahead.append(child)
        return {process for process in found if process.pid != os.getpid()}


def members(directory: str, root: int | None = None, start: int | None = None) -> set[Process]:
    """The processes of one task now; see ``Snapshot.members``."""
    return Snapshot().members(directory, root, start)


def send(processes: Iterable[Process], number: int) -> None:
    """Send a signal to each that is still the process it was."""
    now = table()
    for process in processes:
        if process.pid in now and now[process.pid].start == process.start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def adopt_orphans() -> None:
    """Make the orphans of this process's descendants its own children (Linux), so that their end is noticed."""
    import ctypes  # 10 ms that the launcher need not spend

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
