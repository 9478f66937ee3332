"""One rank: runs the program as a child, labels its lines, keeps its whole log, records how it failed.

Standard library only, Python 3.8 or newer; called by skeleton.sh or torchrun as ``python -IS rank.py … -- program``.
Signals reach the child without help (srun signals every process of the step, torchrun the rank's group), so that they
are only survived here.
"""

import argparse
import contextlib
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time

#: Longest line that other ranks cannot cut in two: srun forwards output in messages of 1024 bytes.
LINE = 1000
PIPE_BUF = 4096
TAIL = 128 * 1024
TRACEBACK = 16 * 1024
#: Seconds after which a line without end is shown as far as it is there.
PATIENCE = 1.0
#: Seconds that grandchildren may keep the pipe open after the program's end.
LINGER = 1.0
END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
SURVIVED = END + (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class Output:
    """The job's log: whole lines, each with the rank's label in front; no label: bytes as they come."""

    def __init__(self, label):
        self.label = label
        regular = stat.S_ISREG(os.fstat(1).st_mode) and "SLURM_STEP_ID" not in os.environ
        self.longest = 0 if regular else LINE
        self.partial = b""
        self.since = 0.0

    def feed(self, data):
        if not self.label:
            write(1, data)
            return
        lines = (self.partial + data).split(b"\n")
        if len(lines) > 1 or not self.partial:
            self.since = time.monotonic()
        self.partial = lines.pop()
        if len(self.partial) > TAIL:
            lines.append(self.partial)
            self.partial = b""
        self.show(lines)

    def due(self):
        """Seconds until the unfinished line should be shown; None: there is none."""
        return max(0.0, self.since + PATIENCE - time.monotonic()) if self.partial else None

    def flush(self):
        if self.partial:
            self.show([self.partial])
            self.partial = b""

    def show(self, lines):
        ready = b""
        for line in lines:
            for piece in self.pieces(line):
                if ready and self.longest and len(ready) + len(piece) > PIPE_BUF:
                    write(1, ready)
                    ready = b""
                ready += piece
        if ready:
            write(1, ready)

    def pieces(self, line):
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


def write(descriptor, data):
    """Everything, as one write where the system can; a reader that is gone or a full disk ends nothing."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [], 1.0)
        except OSError:
            return


def die_with_parent():
    """The kernel kills this process when its parent dies (Linux; elsewhere nothing)."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def identity(launcher):
    """(rank, world size, environment of the program)."""
    env = dict(os.environ)
    if launcher == "torchrun":
        return int(env["RANK"]), int(env["WORLD_SIZE"]), env
    if launcher == "srun":
        rank = int(env["SLURM_PROCID"])
        world = int(env.get("SLURM_STEP_NUM_TASKS") or env["SLURM_NTASKS"])
        env.update(RANK=str(rank), LOCAL_RANK=env["SLURM_LOCALID"], NODE_RANK=env["SLURM_NODEID"])
        env.setdefault("WORLD_SIZE", str(world))
        env.setdefault("LOCAL_WORLD_SIZE", env.get("SLURM_STEP_TASKS_PER_NODE", "1").split("(")[0].split(",")[0])
        return rank, world, env
    return 0, 1, env


def run(command, env, output, log):
    """(wait status as subprocess has it, end of the output, whether this process was told to end before)."""
    told = []
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in SURVIVED:
        # Handlers, not SIG_IGN, which the program would inherit; torchrun's ignored signals are put right, too.
        signal.signal(number, lambda number, _: told.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)

    source, sink = os.pipe()
    libc_warm = die_with_parent  # loaded before the fork: the child only calls it
    try:
        child = subprocess.Popen(command, env=env, stdout=sink, stderr=sink, preexec_fn=libc_warm)
    finally:
        os.close(sink)
    tail, status, until = b"", None, None
    while True:
        waits = [until - time.monotonic()] if until is not None else []
        waits += [due for due in [output.due()] if due is not None]
        ready = select.select([source, wake], [], [], max(0.0, min(waits)) if waits else None)[0]
        if wake in ready:
            os.read(wake, 4096)
        data = os.read(source, 65536) if source in ready else None
        if data:
            output.feed(data)
            if log is not None:
                write(log, data)
            tail = (tail + data)[-TAIL:]
        if output.due() == 0.0:
            output.flush()
        if status is None:
            status = child.poll()
            if status is not None:
                ended_told = any(number in END for number in told)
                until = time.monotonic() + LINGER
        if data == b"":
            break
        # Something that outlives the program holds the pipe: what is there was read, more is not waited for.
        now = time.monotonic()
        if until is not None and now >= until and (source not in ready or now > until + 5 * LINGER):
            break
    output.flush()
    if status is None:
        status = child.wait()
        ended_told = any(number in END for number in told)
    return status, tail, ended_told


HEADER = re.compile(r"(?:  \+ Exception Group )?Traceback \(most recent call last\):$")
CHAINED = ("During handling of the above exception, another", "The above exception was the direct cause")
ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)")


def last_traceback(text):
    """(last line of the last traceback, that traceback with those it is chained to); empty where there is none."""
    # torch puts [rank0]: in front of every line once a process group exists
    lines = [re.sub(r"^\[rank\d+\]: ?", "", line) for line in text.replace("\r", "").split("\n")]
    headers = [at for at, line in enumerate(lines) if HEADER.match(line)]
    if not headers:
        last = next((line for line in reversed(lines) if line.strip()), "")
        return (last[:500], "") if ERROR.match(last) else ("", "")
    first = last = headers.pop()
    while headers and any(line.strip(" |").startswith(CHAINED) for line in lines[max(0, first - 3) : first]):
        first = headers.pop()
    group = "Exception Group" in lines[last]
    stop = exception = None
    for at in range(last + 1, len(lines)):
        line = lines[at]
        if group and re.match(r"  \| \S", line) or not group and line and not line[0].isspace():
            stop, exception = at, line[4:] if group else line
            break
    if stop is None:  # cut off by a kill
        return "", "\n".join(lines[first:])[-TRACEBACK:]
    return exception[:500], "\n".join(lines[first : stop + 21]).strip("\n")[-TRACEBACK:]


def create(path, text):
    """Make a file only if there is none, whole: True when this call made it. link() decides, also on NFS."""
    temporary = "%s.%s.%d" % (path, os.uname().nodename, os.getpid())
    try:
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        try:
            os.link(temporary, path)
            return True
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


def record(ranks, rank, world, status, tail, induced):
    """Leave how this rank ended; the first failure of all is also told in the log."""
    if status == 0:
        create(os.path.join(ranks, "rank-%d.ok" % rank), "")
        return
    node = node_name()
    exception, traceback = last_traceback(tail.decode("utf-8", "replace"))
    number = -status if status < 0 else 0
    try:
        name = signal.Signals(number).name if number else None
    except ValueError:
        name = "signal %d" % number
    body = {
        "exit_code": 128 + number if number else status,  # first: the batch script looks for it
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
        how = name or "exit code %d" % status
        told = "nemo_launch: rank %d on %s failed first: %s%s\n" % (rank, node, how, exception and ", " + exception)
        write(1, told.encode("utf-8", "replace")[:LINE])


def node_name():
    """As the scheduler calls this node."""
    return (os.environ.get("SLURMD_NODENAME") or os.uname().nodename).split(".")[0]


def main():
    parser = argparse.ArgumentParser(prog="rank.py")
    parser.add_argument("--launcher", choices=("torchrun", "srun", "none"), required=True)
    parser.add_argument("--ranks", required=True)
    parser.add_argument("--work-dir", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:]  # after --
    parent = os.getppid()
    die_with_parent()
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    rank, world, env = identity(args.launcher)
    label = b"[%s:%d] " % (os.fsencode(node_name()), rank) if world > 1 else b""
    try:
        os.chdir(args.work_dir)
    except OSError as error:
        text = "work dir %s is missing or closed on %s (%s). It must exist on every node."
        text = text % (args.work_dir, node_name(), error.strerror)
        if create(os.path.join(args.ranks, "problem"), "workdir\n%s\n" % text):
            print("nemo_launch: " + text, flush=True)
        return 78
    log = None
    with contextlib.suppress(OSError):
        log = os.open(os.path.join(args.ranks, "rank-%d.log" % rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        status, tail, induced = run(command, env, Output(label), log)
    except OSError as error:
        text = "cannot start %s on %s: %s" % (command[0], node_name(), error.strerror)
        print("nemo_launch: " + text, flush=True)
        status, tail, induced = 127 if isinstance(error, FileNotFoundError) else 126, b"", False
        create(os.path.join(args.ranks, "problem"), "program\n%s\n" % text)
    record(args.ranks, rank, world, status, tail, induced)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
