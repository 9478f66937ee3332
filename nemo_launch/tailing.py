"""Log files read by offset, never copied anew, and the lines of several of them as one text.

Logs lie on file systems such as NFS and Lustre, where a file that grows on another machine may be stale, may show
zeros where bytes are still on their way, and may shrink. So a file is opened anew for every read, trailing zeros are
left for the next read, and a file that is shorter than what was read begins again.

A log need not be text. What is handed on is decoded with ``surrogateescape``, so that its bytes can be had back.
"""

from __future__ import annotations

import codecs
import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nemo_launch.transport import Transport

if TYPE_CHECKING:
    from nemo_launch.executors.base import LogSource
    from nemo_launch.experiments.observing import TaskStatus

_CHUNK = 1 << 20
#: A line without its end is shown after this many seconds (a prompt, a progress bar).
_PARTIAL = 1.0
_LABEL = re.compile(rb"\[([^\]\s:]+):(\d+)\] ?")

Write = Callable[[str], None]


class Tail:
    """What was added to one file since the last look."""

    def __init__(self, transport: Transport, path: str, begin: int = 0) -> None:
        self.path = path
        self.end: int | None = None
        """Where what follows is not wanted, in bytes; None: nowhere."""
        self._transport = transport
        self._offset = begin
        self._last: bytes | None = None

    def read(self) -> bytes:
        """New bytes, at most a chunk; empty when there are none now, or no file."""
        # One byte that is known already tells whether the file is still as long as it was.
        data = self._transport.read(self.path, max(self._offset - 1, 0), _CHUNK + 1)
        if data is None:
            return b""
        if self._offset:
            if self._last is None:  # nothing was read yet
                if not data:
                    return b""
                self._last = data[:1]
            if data[:1] != self._last:
                self._offset, self._last = 0, b""
                return self.read()
            data = data[1:]
        if self.end is not None:
            data = data[: max(self.end - self._offset, 0)]
        if len(data) < _CHUNK:
            data = data.rstrip(b"\0")
        if data:
            self._offset += len(data)
            self._last = data[-1:]
        return data


@dataclass(frozen=True)
class Selection:
    """Which lines are wanted."""

    rank: int | None = None
    """Only this rank's own log."""
    node: str | None = None
    """Only lines that carry this node's label."""
    lines: int | None = None
    """Only so many of the newest that are there at the start."""
    attempt: int | Literal["all"] | None = None
    """Only this attempt (0 is the first); None: from the one on that is the newest at the start."""


class Stream:
    """The logs of some tasks as one text; lines carry the task's name where there are several."""

    def __init__(self, names: Sequence[str], write: Write, select: Selection = Selection()) -> None:
        self._write = write
        self._select = select
        self._labelled = len(names) > 1
        self._parts: dict[tuple[str, str], _Part] = {}
        self._since: dict[str, int] = {}
        self._statuses: list[TaskStatus] = []
        self.newest: dict[str, int] = {}
        """The newest attempt of each task that has a log."""
        self.nodes: set[str] = set()
        """Nodes whose labels were seen."""
        self._kept: deque[str] | None = None

    def update(self, statuses: Sequence[TaskStatus]) -> None:
        """Look for the logs of these tasks."""
        self._statuses = list(statuses)
        for status in statuses:
            if not status.job.handle:
                continue
            sources = sorted(status.executor.log_sources(status.job), key=lambda source: source.attempt)
            if sources:
                self.newest[status.name] = sources[-1].attempt
            for source in sources:
                if source.rank == self._select.rank:
                    self._take(status, source)

    def _take(self, status: TaskStatus, source: LogSource) -> None:
        """One more log, if it is wanted. Attempts of one job write into the same file, one after the other."""
        wanted, known = self._select.attempt, self._parts.get((status.name, source.path))
        if known is not None:
            if isinstance(wanted, int) and source.attempt == wanted + 1:
                known.tail.end = source.begin
            return
        if wanted is None:
            wanted = self._since.setdefault(status.name, self.newest[status.name])
            if source.attempt < wanted:
                return
        elif wanted != "all" and source.attempt != wanted:
            return
        begin = 0 if self._select.attempt == "all" else source.begin
        self._parts[status.name, source.path] = _Part(Tail(status.executor.transport, source.path, begin))

    @property
    def found(self) -> bool:
        """Whether there is any log yet."""
        return bool(self._parts)

    def pump(self, last: bool = False) -> bool:
        """Write what is new; whether there was anything. ``last``: also lines without their end."""
        if not self.found:
            self.update(self._statuses)
        some = False
        texts: list[str] = []
        later = {name: part for (name, _), part in self._parts.items()}  # the last log of each task
        busy: set[str] = set()
        for (name, _), part in self._parts.items():
            if name in busy:
                continue  # one attempt after the other
            pieces = part.read(last or part is not later[name], whole=self._labelled or bool(self._select.node))
            if pieces is not None:
                busy.add(name)
                some = True
            texts += (self._text(name, piece) for piece in pieces or () if self._wanted(piece))
        if self._kept is not None:
            self._kept.extend(texts)
        elif texts:
            self._put(texts)
        return some

    def tail(self) -> None:
        """Write what is there now, or the newest lines of it when so many were asked for."""
        if self._select.lines is not None:
            self._kept = deque(maxlen=self._select.lines)
        while self.pump():
            pass
        if self._kept is not None:
            self.pump(last=True)
            texts, self._kept = list(self._kept), None
            if texts:
                self._put(texts)

    def _wanted(self, piece: bytes) -> bool:
        if self._select.node is None:
            return True
        label = _LABEL.match(piece)
        if label:
            self.nodes.add(label[1].decode("utf-8", "surrogateescape"))
        return bool(label and label[1] == os.fsencode(self._select.node))

    def _text(self, name: str, piece: bytes) -> str:
        text = piece.decode("utf-8", "surrogateescape")
        return f"[{name}] {text}" if self._labelled else text

    def _put(self, texts: list[str]) -> None:
        # all that one look found goes out at once: a write for every line is slow
        self._write("".join(texts))


class _Part:
    """One log cut into lines."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self._rest = b""
        self._since = 0.0

    def read(self, last: bool, whole: bool) -> list[bytes] | None:
        """Lines that are complete now; None when the file had nothing new."""
        data = self.tail.read()
        if lines_came := b"\n" in data or not self._rest:
            self._since = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        pieces = [line + b"\n" for line in lines]
        stale = not whole and not lines_came and time.monotonic() - self._since > _PARTIAL
        if self._rest and last and not data:
            pieces.append(self._rest + b"\n" if whole else self._rest)
            self._rest = b""
        elif self._rest and stale:
            end = len(self._rest) - _begun(self._rest)
            pieces += [self._rest[:end]] if end else []
            self._rest = self._rest[end:]
        return pieces if data or pieces else None


def _begun(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character whose rest is still to come."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    decoder.decode(data)
    return len(decoder.getstate()[0])
