"""A rank's lines in the job's log: labelled, never mixed with another rank's. Standard library, Python 3.8.

Where srun forwards them, lines over ``LINE`` bytes are continued in labelled pieces; they are whole in the rank's own
log (``ranks-*/rank-N.log``, ``logs --rank``).
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterable, Iterator

#: Longest line that other ranks cannot cut in two: srun forwards output in messages of 1024 bytes.
LINE = 1000
#: Most bytes that a pipe takes in one piece (Linux: PIPE_BUF).
PIECE = 4096
#: Longest unfinished line that is held back.
HELD = 128 * 1024
#: Seconds after which an unfinished line is shown as far as it is there.
PATIENCE = 1.0


class Output:
    """Standard output of this process. Without a label (one rank) bytes pass as they come."""

    def __init__(self, label: bytes) -> None:
        self.label = label
        regular = stat.S_ISREG(os.fstat(1).st_mode) and "SLURM_STEP_ID" not in os.environ
        self.longest = 0 if regular else LINE  # appending to a file is atomic, however long
        self.partial = b""
        self.since = 0.0

    def feed(self, data: bytes) -> None:
        """What the program wrote."""
        if not self.label:
            write(1, data)
            return
        lines = (self.partial + data).split(b"\n")
        if len(lines) > 1 or not self.partial:
            self.since = time.monotonic()
        self.partial = lines.pop()
        if len(self.partial) > HELD:
            lines.append(self.partial)
            self.partial = b""
        self._show(lines)

    def due(self) -> float | None:
        """Seconds until the unfinished line should be shown; None: there is none."""
        return max(0.0, self.since + PATIENCE - time.monotonic()) if self.partial else None

    def flush(self) -> None:
        """Show the unfinished line."""
        if self.partial:
            self._show([self.partial])
            self.partial = b""

    def _show(self, lines: Iterable[bytes]) -> None:
        ready = b""
        for line in lines:
            for piece in self._pieces(line):
                if ready and self.longest and len(ready) + len(piece) > PIECE:
                    write(1, ready)
                    ready = b""
                ready += piece
        if ready:
            write(1, ready)

    def _pieces(self, line: bytes) -> Iterator[bytes]:
        # As a terminal would end up showing it: a progress bar's last state. The rank's own log has every byte.
        line = line.rstrip(b"\r").rsplit(b"\r", 1)[-1]
        room = self.longest - len(self.label) - 1 if self.longest else 0
        while room and len(line) > room:
            cut = room
            while cut > room - 4 and line[cut] & 0xC0 == 0x80:  # not inside a UTF-8 character
                cut -= 1
            yield self.label + line[:cut] + b"\n"
            line = line[cut:]
        yield self.label + line + b"\n"


def write(descriptor: int, data: bytes) -> None:
    """Everything, as one write where the system can; a reader that is gone or a full disk ends nothing."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [], 1.0)
        except OSError:
            return
