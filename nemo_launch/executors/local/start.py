"""Starting the supervisor: a process that outlives this one and has the whole request, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import IO, Any

from nemo_launch import records
from nemo_launch.errors import SchedulerRefused, Unreachable
from nemo_launch.layout import TaskPaths

#: Of this process's environment, only what an isolated Python needs to start and to read paths as this one does.
_SUPERVISOR_ENV = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_ANSWER_SECONDS = 60.0


def supervisor(experiment: str, request: dict[str, Any]) -> str:
    """Start one for these tasks; its pid, which is their job id, once it has taken them.

    Raises:
        SchedulerRefused: nothing runs.
        Unreachable: it got the request and did not say what it did with it.
    """
    argv = [sys.executable, "-I", "-S", *(["-X", "utf8"] if sys.flags.utf8_mode else [])]
    argv += [os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervisor.py"), experiment]
    try:
        errors = open(TaskPaths(os.path.join(experiment, "-"), "").supervisor_log, "ab")  # noqa: SIM115
    except OSError as error:
        raise records.unwritable(experiment, error) from error
    with errors:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env={name: os.environ[name] for name in _SUPERVISOR_ENV if name in os.environ},
            )
        except OSError as error:
            raise SchedulerRefused(f"cannot start {argv[0]}: {error.strerror}. Nothing was started.") from error
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("pipes were asked for")
    try:
        who = _answer(process.stdout, _ANSWER_SECONDS)
        pid = who.get("pid") if who else None
        if pid is None:
            process.kill()
            process.wait()
            raise SchedulerRefused(
                f"the supervisor of the local tasks did not come up ({_last_line(errors.name)}). Nothing was started."
            )
        process.wait()  # it has left its child behind
        _send(process.stdin, request)
        said = _answer(process.stdout, _ANSWER_SECONDS)
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
    if said is None:
        raise Unreachable(
            f"the supervisor (process {pid}) got the tasks but gave no answer ({_last_line(errors.name)}). "
            "status shows what became of them."
        )
    if "refused" in said:
        raise SchedulerRefused(f"{said['refused']}. Nothing was started.")
    return str(pid)


def _send(pipe: IO[bytes], request: dict[str, Any]) -> None:
    # The end of the pipe is the end of the request; what breaks off before is no JSON and no request.
    try:
        pipe.write(json.dumps(request).encode())
        pipe.close()
    except OSError as error:
        raise SchedulerRefused(
            f"the supervisor of the local tasks ended ({error.strerror}). Nothing was started."
        ) from error


def _last_line(path: str) -> str:
    """What the supervisor complained about last."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        lines = file.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{path} cannot be read"


def _answer(pipe: IO[bytes], seconds: float) -> dict[str, Any] | None:
    """The next line that it says; None: it ended, or said nothing in time."""
    lines: list[bytes] = []
    # A thread because the line may come in pieces; it ends with the pipe at the latest.
    reader = threading.Thread(target=lambda: lines.append(pipe.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    try:
        value = json.loads(lines[0]) if lines else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
