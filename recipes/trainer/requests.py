"""What is asked for from outside while the steps go on: a checkpoint, an end."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from trainer.group import Group

#: Seconds between looks at the marker file, which may lie on a file system of the whole cluster.
LOOK_EVERY = 0.2


class Requests:
    """SIGUSR1 asks for a checkpoint, SIGTERM for one and an end; so does the file $NEMO_LAUNCH_CHECKPOINT_REQUESTED.

    SIGUSR1 is heard from the start, since it would end the process; SIGTERM from `hear_end`, when there is something
    to save.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._asked = self._answered = 0  # two counters, so that a signal during look() is not lost
        self._stop = False
        self._marker = os.environ.get("NEMO_LAUNCH_CHECKPOINT_REQUESTED") if group.rank == 0 else None
        self._marked, self._looked = 0, 0.0
        signal.signal(signal.SIGUSR1, self._on_signal)

    def hear_end(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self._asked += 1
        self._stop = self._stop or number == signal.SIGTERM

    def look(self) -> tuple[bool, bool]:
        """(save, stop) as all ranks agree on it: what reached one rank counts for all, at the same step."""
        asked, marked = self._asked, self._marked
        if self._marker and time.monotonic() - self._looked > LOOK_EVERY:
            self._looked = time.monotonic()
            with contextlib.suppress(OSError):  # not there: nothing asked
                marked = os.stat(self._marker).st_mtime_ns
        wanted = asked != self._answered or marked != self._marked
        self._answered, self._marked = asked, marked
        save, stop = self._group.any(wanted, self._stop)
        return save, stop
