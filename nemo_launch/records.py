"""What is on disk: every path of an experiment (this is the only place that knows them) and atomic JSON files.

Layout (the first three levels are NeMo-Run's)::

    <home>/experiments/<title>/<title>_<unix seconds>/   ExperimentPaths
        experiment.json   launcher-<n>.json   launched   supervisor-<pid>.json   supervisor.log (local)
        <task>/                                          TaskPaths: "Local Directory"
            task.json intent.json handle.json            written by the launcher, as are
            refused.json seen.json                       … what the scheduler said last
            state.json                                   written by the local supervisor
            job.sh runner/ claim cancelled checkpoint-requested <job>.log
            started-<job>-<restart>.json exit-<job>-<restart>.json ranks-<job>-<restart>/
    <home>/snapshots/<digest>/
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import time
from dataclasses import dataclass
from typing import Any

from nemo_launch import here
from nemo_launch.errors import InputError, Problem, RecordError

SCHEMA_VERSION = 1
#: A clock that was set back by more than this is not made up for.
_CLOCK = 10 * 365 * 86400


@dataclass(frozen=True)
class TaskPaths:
    """Files of one task. ``dir`` is where the launcher keeps its record, ``job_dir`` what the nodes see."""

    dir: str
    job_dir: str

    # the launcher's own files, always on this machine
    @property
    def task(self) -> str:
        """What was asked."""
        return os.path.join(self.dir, "task.json")

    @property
    def intent(self) -> str:
        """Written before the scheduler is called."""
        return os.path.join(self.dir, "intent.json")

    @property
    def handle(self) -> str:
        """The scheduler's id, written right after it answered."""
        return os.path.join(self.dir, "handle.json")

    @property
    def refused(self) -> str:
        """The scheduler's last no, in its own words."""
        return os.path.join(self.dir, "refused.json")

    @property
    def seen(self) -> str:
        """Last state that the scheduler told, for when it no longer answers."""
        return os.path.join(self.dir, "seen.json")

    @property
    def state(self) -> str:
        """Local only: what the supervisor knows of the task."""
        return os.path.join(self.dir, "state.json")

    def patterns(self) -> TaskPaths:
        """The same paths as glob patterns, in which only ``*`` in place of an id stands for anything."""
        return TaskPaths(glob.escape(self.dir), glob.escape(self.job_dir))

    def supervisor(self, job_id: str = "*") -> str:
        """Local only: identity of the supervisor with this pid; it lies in the experiment's directory."""
        return os.path.join(os.path.dirname(self.dir), f"supervisor-{job_id}.json")

    @property
    def supervisor_log(self) -> str:
        """Local only: what the experiment's supervisors complained about."""
        return os.path.join(os.path.dirname(self.dir), "supervisor.log")

    # the job's files, reached through the executor's transport
    @property
    def script(self) -> str:
        """The batch script; its unique path is the job's tag at the scheduler."""
        return os.path.join(self.job_dir, "job.sh")

    @property
    def runner(self) -> str:
        """Folder of the files that run on the node."""
        return os.path.join(self.job_dir, "runner")

    @property
    def claim(self) -> str:
        """Symlink to ``job-<id>``: the job that owns this submission."""
        return os.path.join(self.job_dir, "claim")

    @property
    def secrets(self) -> str:
        """Values of secrets, where the scheduler's accounting would show the environment; folder 0700, file 0600."""
        return os.path.join(self.job_dir, "secrets", "environment")

    @property
    def cancelled(self) -> str:
        """Marker: the user cancelled; never requeue."""
        return os.path.join(self.job_dir, "cancelled")

    @property
    def checkpoint_requested(self) -> str:
        """Marker that recipes poll: save soon, the end is near."""
        return os.path.join(self.job_dir, "checkpoint-requested")

    def log(self, job_id: str) -> str:
        """All ranks' lines; ``%j`` is a valid job id here, for the directive."""
        return os.path.join(self.job_dir, f"{job_id}.log")

    def exit_record(self, job_id: str = "*", restart: int | str = "*") -> str:
        """One attempt's end, as the batch script wrote it."""
        return os.path.join(self.job_dir, f"exit-{job_id}-{restart}.json")

    def started(self, job_id: str = "*", restart: int | str = "*") -> str:
        """One attempt's start, as the batch script wrote it."""
        return os.path.join(self.job_dir, f"started-{job_id}-{restart}.json")

    def ranks(self, job_id: str = "*", restart: int | str = "*") -> str:
        """Folder of one attempt's rank logs and failure records."""
        return os.path.join(self.job_dir, f"ranks-{job_id}-{restart}")

    def first_failure(self, job_id: str = "*", restart: int | str = "*") -> str:
        """The rank that failed first in one attempt."""
        return os.path.join(self.ranks(job_id, restart), "first-failure.json")


@dataclass(frozen=True)
class ExperimentPaths:
    """Files of one experiment; ``id`` is ``<title>_<unix seconds>``."""

    home: str
    title: str
    id: str

    @classmethod
    def around(cls, task: TaskPaths) -> ExperimentPaths:
        """The experiment that a task belongs to."""
        folder, id = os.path.split(os.path.dirname(task.dir))
        folder, title = os.path.split(folder)
        return cls(os.path.dirname(folder), title, id)

    @property
    def dir(self) -> str:
        """The experiment's directory."""
        return os.path.join(experiments(self.home), self.title, self.id)

    @property
    def record(self) -> str:
        """The experiment's record."""
        return os.path.join(self.dir, "experiment.json")

    @property
    def launched(self) -> str:
        """Marker: the launch ran to its end and the user saw the status block."""
        return os.path.join(self.dir, "launched")

    def launcher(self, number: int) -> str:
        """Identity of the n-th process that launched (0) or adopted (1…) this experiment."""
        return os.path.join(self.dir, f"launcher-{number}.json")

    def task(self, name: str, job_dir: str | None = None) -> TaskPaths:
        """Paths of one task; ``job_dir`` is a folder that the nodes see instead of the home."""
        folder = os.path.join(self.dir, name)
        return TaskPaths(folder, os.path.join(job_dir, self.title, self.id, name) if job_dir else folder)


def home() -> str:
    """``$NEMORUN_HOME``, else ``~/.nemo_run``; absolute."""
    value = os.environ.get("NEMORUN_HOME") or os.path.join("~", ".nemo_run")
    path = here.absolute(value)
    if "\n" in path:
        raise InputError(Problem(f"{path!r} has a newline in it", "NEMORUN_HOME", "Choose another directory."))
    return path


def experiments(base: str) -> str:
    """Folder of the experiments under a home."""
    return os.path.join(base, "experiments")


def snapshots(base: str) -> str:
    """Folder of the code snapshots under a home or a job_dir."""
    return os.path.join(base, "snapshots")


def claim_experiment(base: str, title: str) -> ExperimentPaths:
    """Make a directory that no other launch has: an exclusive mkdir decides, the next second is tried on a clash.

    It comes after all others of its title, also when the clock was set back, because a title means its newest.

    On NFS mkdir can report EEXIST for its own success; the directory without a record that this leaves is ignored
    by readers.
    """
    second = int(time.time())
    folder = os.path.join(experiments(base), title)
    try:
        os.makedirs(folder, exist_ok=True)
        second = max(second, _newest(folder, second) + 1)
        while True:
            paths = ExperimentPaths(base, title, f"{title}_{second}")
            try:
                os.mkdir(paths.dir)
                return paths
            except FileExistsError:
                second += 1
            except FileNotFoundError:  # a launch that was refused has removed the empty folder
                os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise unwritable(base, error, base) from error


def _newest(folder: str, now: int) -> int:
    """Second of the newest experiment in a title's folder; what lies years ahead was no clock's doing."""
    seconds = (name.rpartition("_")[2] for name in os.listdir(folder))
    return max((int(s) for s in seconds if s.isdecimal() and len(s) <= 11 and int(s) < now + _CLOCK), default=0)


def unwritable(path: str, error: OSError, base: str | None = None) -> RecordError:
    """The error for a home or file that cannot be written: whose it is, where rights are the reason, and what helps.

    ``base``: the home that it may belong to; default: this user's.
    """
    base = base or home()
    name = os.fsdecode(error.filename or path)
    if name.startswith(path) and name.endswith(".tmp"):
        name = path
    owner = _other_owner(name) if error.errno in (errno.EACCES, errno.EPERM) else ""
    parts = os.path.relpath(name, base).split("/")
    ours = parts[0] != ".." or base.startswith(name)
    if owner and ours and parts[0] == "experiments" and len(parts) > 3:
        fix = f"The experiment belongs to {owner}, and only {owner} can change it."
    else:
        field = "Set NEMORUN_HOME to" if ours else "Name as job_dir"
        whose = f"It belongs to {owner}. " if owner else ""
        fix = f"{whose}{field} a directory with room that you may write (and that the nodes see)."
    return RecordError(f"cannot write {name}: {error.strerror}. {fix}")


def _other_owner(path: str) -> str:
    """Name of the owner of a path, or of the nearest folder above it that exists; empty: it is this user."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return ""
    if uid == os.geteuid():
        return ""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def write_bytes(path: str, data: bytes, mode: int = 0o644, sync: bool = True) -> None:
    """Write a file whole or not at all: temporary file in the same folder, fsync, rename.

    Without ``sync`` a crash of the machine may lose it: for what can be made again, or is read at once.
    """
    temporary = _temporary(path)
    try:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise unwritable(path, error) from error


def write_json(path: str, value: dict[str, Any], mode: int = 0o644, sync: bool = True) -> None:
    """Write a record atomically, with its schema version."""
    body = {"schema_version": SCHEMA_VERSION, **value}
    write_bytes(path, (json.dumps(body, indent=1, ensure_ascii=True) + "\n").encode(), mode, sync)


def create_json(path: str, value: dict[str, Any]) -> bool:
    """Write a record only if there is none: True when this call made it (link() decides, also on NFS)."""
    temporary = _temporary(path)
    write_json(temporary, value)
    try:
        os.link(temporary, path)
        return True
    except FileExistsError:
        # NFS may repeat a request whose answer was lost: two links mean that this call was the one.
        return os.stat(temporary).st_nlink == 2
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _temporary(path: str) -> str:
    """A name that no other writer has: on a shared home there are more processes with this one's number."""
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"


def read_json(path: str) -> dict[str, Any] | None:
    """A record, or None where there is none.

    Raises:
        RecordError: it cannot be read, is damaged, or was written by a newer version.
    """
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged ({error}). Move it away to go on without it.") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path} is damaged: not a JSON object. Move it away to go on without it.")
    version = value.get("schema_version", 0)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise RecordError(f"{path} was written by a newer nemo_launch (schema {version}). Upgrade to read it.")
    return value
