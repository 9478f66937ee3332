"""Standard streams: that there are some, and text that leaves as the very bytes it came from."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO


def ensure() -> None:
    """Open those of the three standard streams that the caller closed (cron, ``nohup … >&-``) on ``/dev/null``.

    Otherwise the next file that is opened would get the number, and be written to by every child process.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)  # gets the lowest free number, which is this one
            os.set_inheritable(opened, True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            raw = io.FileIO(number, "w" if number else "r", closefd=False)
            buffer = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
            setattr(sys, name, io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape"))


def give_up(stream: TextIO) -> None:
    """Let a stream that cannot be written end in ``/dev/null``: what it still holds must not be tried again at exit."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
        stream.flush()


def write(stream: TextIO | None, text: str, exact: bool = False) -> None:
    """Write text now. Names, scripts and logs are bytes to the system, which ``surrogateescape`` keeps.

    With ``exact`` they leave as they came in, whatever the locale says; without, only what the locale cannot say does.
    Where there is no stream (``sys.stdout`` of a daemon), text goes nowhere, as it does with ``print``.
    """
    if stream is None:
        return
    buffer = getattr(stream, "buffer", None)
    if not exact or buffer is None:
        try:
            stream.write(text)
            stream.flush()
            return
        except UnicodeEncodeError:
            if buffer is None:  # a notebook, which knows no bytes
                stream.write(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
                stream.flush()
                return
    stream.flush()
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "backslashreplace")
    buffer.write(data)
    stream.flush()
