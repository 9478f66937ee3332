"""The small process that runs an experiment's tasks on this machine after the launcher has gone.

It is started as a file (``python -I -S supervisor.py EXPERIMENT_DIR``), gets its whole request through stdin, where
secrets are safe, and answers on stdout in lines of JSON: who it is, then that it has taken the tasks. A request that
breaks off is none at all, so a launcher killed at any instant has either started everything or nothing. It imports
only the standard library and this package's light modules, and sleeps whenever nothing happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # isolated from the user's environment and folder: the package is found by this file's place
    # Last, because where it is installed other packages may have names of the standard library.
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from nemo_launch import identity, records
from nemo_launch.errors import RecordError
from nemo_launch.executors.local.loop import Loop
from nemo_launch.executors.local.outside import Outside
from nemo_launch.executors.local.run import Run
from nemo_launch.layout import TaskPaths


def detach() -> int:
    """Leave the launcher, its session and its terminal; the launcher's child ends here. The new pid."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        # A handler and not SIG_IGN: the tasks would inherit that one.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return os.getpid()


def introduce(experiment: str) -> str:
    """Record who this is; the path of that record. A pid that an earlier supervisor had here is given up."""
    while True:
        path = TaskPaths(os.path.join(experiment, "-"), "").supervisor(str(os.getpid()))
        if records.create_json(path, dict(identity.mine())):
            return path
        if os.fork():
            os._exit(0)


def answer(**words: Any) -> None:
    """One line to the launcher, if it is still there."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()


def request() -> dict[str, Any] | None:
    """The whole request; None: the launcher died while it was writing."""
    try:
        value = json.loads(sys.stdin.buffer.read())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def take(tasks: list[Run]) -> str | None:
    """Claim every task for this process, or none: then why not."""
    mine = f"job-{os.getpid()}"
    taken: list[Run] = []
    try:
        for task in tasks:
            with contextlib.suppress(FileExistsError):
                os.symlink(mine, task.paths.claim)
            # asking afterwards also settles what NFS said about a repeated request
            owner = os.readlink(task.paths.claim)
            if owner != mine:
                raise FileExistsError(f"{task.name} is already run by {owner.replace('-', ' ')}")
            taken.append(task)
        for task in tasks:
            task.record(sure=True)
    except (OSError, RecordError) as error:
        for task in taken:
            with contextlib.suppress(OSError):
                os.unlink(task.paths.claim)
        return str(error)
    return None


def main() -> int:
    """Take the request and see it through."""
    detach()
    record = introduce(sys.argv[1])
    answer(**identity.mine())
    asked = request()
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    if asked is None:
        os.unlink(record)
        return 1
    tasks = [Run(**task) for task in asked["tasks"]]
    loop = Loop(
        tasks, [Outside(**other) for other in asked["outside"]], asked["max_parallel"]
    )  # from here on signals do no harm
    refusal = take(tasks)
    if refusal is not None:
        os.unlink(record)
        answer(refused=refusal)
        return 1
    answer(ready=True)
    os.dup2(silence, 1)
    loop.run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
