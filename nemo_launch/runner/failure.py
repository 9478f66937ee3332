"""How a rank ended, left where the batch script and the launcher find it. Standard library, Python 3.8."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time

TRACEBACK = 16 * 1024
MESSAGE = 500

_HEADER = re.compile(r"(?:  \+ Exception Group )?Traceback \(most recent call last\):$")
_CHAINED = ("During handling of the above exception, another", "The above exception was the direct cause")
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)")


def record(ranks: str, rank: int, world: int, status: int, tail: bytes, induced: bool) -> None:
    """Leave how a rank ended; the first failure of all is also told in the log.

    Args:
        ranks: folder of this attempt's rank files.
        status: exit code, or minus the number of the signal.
        tail: end of what the rank printed.
        induced: it was told to end, so this is no failure of its own.
    """
    if status == 0:
        create(os.path.join(ranks, "rank-%d.ok" % rank), "told" if induced else "")
        return
    node = node_name()
    exception, traceback = last_traceback(tail.decode("utf-8", "replace"))
    name = signal_name(-status) if status < 0 else None
    body = {
        "exit_code": exit_code(status),  # first: the batch script takes the first that it finds
        "signal": name,
        "rank": rank,
        "node": node,
        "world_size": world,
        "induced": induced,
        "exception": exception,
        "traceback": traceback,
        "time": time.time(),
    }
    text = json.dumps(body) + "\n"
    create(os.path.join(ranks, "rank-%d.json" % rank), text)
    if not induced and create(os.path.join(ranks, "first-failure.json"), text) and world > 1:
        how = (name or "exit code %d" % status) + (exception and ", " + exception)
        say("rank %d on %s failed first: %s" % (rank, node, how))


def begin_round(ranks: str, name: str) -> tuple[str, int]:
    """(folder, number) of a round of ft_launcher, which starts all ranks again; the last one that began counts.

    All ranks of a round give the same name. The number of the first is 0.
    """
    folder = "round-" + name
    path = os.path.join(ranks, folder)
    with contextlib.suppress(OSError):
        os.makedirs(path, exist_ok=True)
        temporary = "%s.%s.%d" % (os.path.join(ranks, "round"), os.uname().nodename, os.getpid())
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(folder)
        os.replace(temporary, os.path.join(ranks, "round"))
        return path, len([entry for entry in os.listdir(ranks) if entry.startswith("round-")]) - 1
    return ranks, 0


def problem(ranks: str, cause: str, text: str) -> None:
    """Why nothing can run here, for the exit record; the first of all nodes also says it in the log."""
    if create(os.path.join(ranks, "problem"), "%s\n%s\n" % (cause, text)):
        say(text)


def work_dir_problem(path: str, error: OSError) -> str:
    """Why the processes cannot start in their folder."""
    text = "work dir %s is missing or closed on %s (%s). It must exist on every node."
    return text % (path, node_name(), error.strerror)


def say(text: str) -> None:
    """A line of ours in the job's log."""
    sys.stdout.buffer.write(b"nemo_launch: " + text.encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()


def exit_code(status: int) -> int:
    """As shells have it: 128 + n for signal n."""
    return status if status >= 0 else 128 - status


def signal_name(number: int) -> str:
    """SIGKILL, or the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def node_name() -> str:
    """As the scheduler calls this node."""
    return (os.environ.get("SLURMD_NODENAME") or os.uname().nodename).split(".")[0]


def create(path: str, text: str) -> bool:
    """Make a file only if there is none, whole: True when this call made it. link() decides, also on NFS."""
    temporary = "%s.%s.%d" % (path, os.uname().nodename, os.getpid())
    try:
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return os.stat(temporary).st_nlink == 2  # NFS repeats a request whose answer was lost
        except OSError:  # a file system without hard links
            with open(path, "x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def last_traceback(text: str) -> tuple[str, str]:
    """(last line of the last traceback, that traceback with those it is chained to); empty where there is none."""
    # torch puts [rank0]: in front of every line once a process group exists
    lines = [re.sub(r"^\[rank\d+\]: ?", "", line) for line in text.replace("\r", "").split("\n")]
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    if not headers:  # a syntax error has none
        end = next((line for line in reversed(lines) if line.strip()), "")
        return (end[:MESSAGE], "") if _ERROR.match(end) else ("", "")
    first = last = headers.pop()
    while headers and any(line.strip(" |").startswith(_CHAINED) for line in lines[max(0, first - 3) : first]):
        first = headers.pop()
    group = "Exception Group" in lines[last]
    for at in range(last + 1, len(lines)):
        line = lines[at]
        if re.match(r"  \| \S", line) if group else line and not line[0].isspace():
            whole = "\n".join(lines[first : at + 21]).strip("\n")  # with the rest of a message of several lines
            return line[4 if group else 0 :][:MESSAGE], whole[-TRACEBACK:]
    return "", "\n".join(lines[first:])[-TRACEBACK:]  # cut off by a kill
