"""Which process is it, beyond a pid that may be used again: pid, start time, host and boot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any


def stat(pid: int) -> list[bytes] | None:
    """Fields 3 (state) and following of /proc/PID/stat; None: gone, or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the command in parentheses may hold anything, so count from its end
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if not fields or fields[0] in (b"Z", b"X") else fields


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None: gone, or a zombie."""
    fields = stat(pid)
    return int(fields[19]) if fields else None


@cache
def boot_id() -> str:
    """This boot of this machine; pids and start times mean nothing across boots."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


@cache
def pid_space() -> str:
    """Where pids mean what they mean here: a container has numbers of its own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def of(pid: int) -> dict[str, Any]:
    """Identity of a process on this machine, as JSON."""
    where = {"host": os.uname().nodename, "boot": boot_id(), "space": pid_space()}
    return {"pid": pid, "start": start_time(pid), **where}


def mine() -> Mapping[str, Any]:
    """Identity of this process."""
    return _known(os.getpid())  # looked up once, and again in a forked child


_known = cache(of)


def alive(identity: Mapping[str, Any]) -> bool | None:
    """Whether that very process still runs; None when it ran on another machine or in another container, where this
    cannot be seen.

    The boot tells machines apart (a container and its host, or two nodes, may share a host name); a process of an
    earlier boot of this host is dead.
    """
    if identity.get("boot") != boot_id():
        return False if identity.get("host") == os.uname().nodename else None
    if identity.get("space", pid_space()) != pid_space():
        return None
    started = start_time(int(identity["pid"]))
    return started is not None and started == identity.get("start")
