"""One rank: runs the program as a child, labels its lines, keeps its whole log, records how it failed.

Standard library only, Python 3.8 or newer; called by skeleton.sh or torchrun as ``python -IBS rank.py … -- program``.
Signals reach the child without help (srun signals every process of the step, torchrun the rank's group), so that they
are only survived here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_launch.runner import failure, output
else:  # on the node they lie beside this file, where Python does not look with -I
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import failure
    import output

#: How much of the end of the output is searched for a traceback.
TAIL = 128 * 1024
#: Seconds that grandchildren may keep the pipe open after the program's end.
LINGER = 1.0
END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
SURVIVED = (*END, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


def run(command: Sequence[str], env: Mapping[str, str], out: output.Output, log: int | None) -> tuple[int, bytes, bool]:
    """(exit code or minus signal, end of the output, whether this process was told to end before that)."""
    told: list[int] = []
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in SURVIVED:
        # Handlers, not SIG_IGN, which the program would inherit; what torchrun was made to ignore is put right, too.
        signal.signal(number, lambda number, _: told.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)

    source, sink = os.pipe()
    try:
        child = subprocess.Popen(command, env=env, stdout=sink, stderr=sink, preexec_fn=die_with_parent)
    finally:
        os.close(sink)
    tail, status, until, induced = b"", None, None, False
    while True:
        waits = [] if until is None else [until - time.monotonic()]
        due = out.due()
        if due is not None:
            waits.append(due)
        ready = select.select([source, wake], [], [], max(0.0, min(waits)) if waits else None)[0]
        if wake in ready:
            os.read(wake, 4096)
        data = os.read(source, 65536) if source in ready else None
        if data:
            out.feed(data)
            if log is not None:
                output.write(log, data)
            tail = (tail + data)[-TAIL:]
        if out.due() == 0.0:
            out.flush()
        if status is None:
            status = child.poll() if data != b"" else child.wait()
            if status is not None:
                induced = was_told(told, status, wake)
                until = time.monotonic() + LINGER
        if data == b"":
            break
        # Something that outlives the program holds the pipe: what is there was read, more is not waited for.
        now = time.monotonic()
        if until is not None and now >= until and (source not in ready or now > until + 5 * LINGER):
            break
    out.flush()
    return status or 0, tail, induced


def was_told(told: Sequence[int], status: int, wake: int) -> bool:
    """Whether the program ended because it, and so this process, was told to end."""
    if failure.exit_code(status) in [128 + number for number in END]:
        # Whoever signals many processes does it one by one: ours may be about to come.
        deadline = time.monotonic() + 0.5
        while not set(told) & set(END) and time.monotonic() < deadline:
            if select.select([wake], [], [], max(0.0, deadline - time.monotonic()))[0]:
                os.read(wake, 4096)
    return bool(set(told) & set(END))


def die_with_parent() -> None:
    """The kernel kills this process when its parent dies (Linux; elsewhere nothing)."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def identity(launcher: str) -> tuple[int, int, dict[str, str]]:
    """(rank, number of ranks, environment of the program)."""
    env = dict(os.environ)
    if launcher in ("torchrun", "ft"):
        return int(env["RANK"]), int(env["WORLD_SIZE"]), env
    if launcher == "srun":
        rank, world = int(env["SLURM_PROCID"]), int(env.get("SLURM_STEP_NUM_TASKS") or env["SLURM_NTASKS"])
        env.update(RANK=str(rank), LOCAL_RANK=env["SLURM_LOCALID"], NODE_RANK=env["SLURM_NODEID"])
        env.setdefault("WORLD_SIZE", str(world))
        return rank, world, env
    return 0, 1, env


def go_on(env: dict[str, str], rank: int, number: int) -> None:
    """What ft_launcher started again goes on from the latest checkpoint, as a job that is started again does."""
    latest = os.path.join(env.get("NEMO_LAUNCH_TASK_DIR", ""), "checkpoints", "latest")
    if os.path.exists(latest):
        env["NEMO_LAUNCH_RESTORE_FROM"] = latest
    if rank == 0:
        failure.say("ft_launcher has started the ranks again (restart %d)" % number)


def main() -> int:
    """Run one rank; the program's exit code."""
    parser = argparse.ArgumentParser(prog="rank.py")
    parser.add_argument("--launcher", choices=("torchrun", "ft", "srun", "none"), required=True)
    parser.add_argument("--ranks", required=True)
    parser.add_argument("--work-dir", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:]  # after --
    parent = os.getppid()
    die_with_parent()
    if os.getppid() != parent:  # it died before that
        return failure.exit_code(-signal.SIGKILL)
    rank, world, env = identity(args.launcher)
    if rank == 0 and "SLURM_STEP_ID" in os.environ:  # by which the processes can be signalled
        failure.create(os.path.join(args.ranks, "step"), os.environ["SLURM_STEP_ID"])
    try:
        os.chdir(args.work_dir)
    except OSError as error:
        failure.problem(args.ranks, "workdir", failure.work_dir_problem(args.work_dir, error))
        return 78
    records = args.ranks
    if args.launcher == "ft":  # every start of the ranks gets another port
        records, number = failure.begin_round(args.ranks, env["MASTER_PORT"])
        if number:
            go_on(env, rank, number)
    label = b"[%s:%d] " % (os.fsencode(failure.node_name()), rank) if world > 1 else b""
    log = None
    with contextlib.suppress(OSError):
        log = os.open(os.path.join(args.ranks, "rank-%d.log" % rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        status, tail, induced = run(command, env, output.Output(label), log)
    except OSError as error:
        text = "cannot start %s on %s: %s" % (command[0], failure.node_name(), error.strerror)
        failure.problem(args.ranks, "program", text)
        status, tail, induced = 127 if isinstance(error, FileNotFoundError) else 126, b"", False
    failure.record(records, rank, world, status, tail, induced)
    return failure.exit_code(status)


if __name__ == "__main__":
    sys.exit(main())
