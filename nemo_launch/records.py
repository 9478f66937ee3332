"""Records: JSON files that are written whole or not at all, and an experiment's folder that no other launch has."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from typing import Any

from nemo_launch import layout
from nemo_launch.errors import RecordError
from nemo_launch.layout import ExperimentPaths

SCHEMA_VERSION = 1
#: A clock that was set back by more than this is not made up for.
_CLOCK = 10 * 365 * 86400


def claim_experiment(base: str, title: str) -> ExperimentPaths:
    """Make a directory that no other launch has: an exclusive mkdir decides, the next second is tried on a clash.

    It comes after all others of its title, also when the clock was set back, because a title means its newest.

    On NFS mkdir can report EEXIST for its own success; the directory without a record that this leaves is ignored
    by readers.
    """
    second = int(time.time())
    folder = os.path.join(layout.experiments(base), title)
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
    base = base or layout.home()
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
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeEncodeError as error:
        raise RecordError(f"cannot read {path!a}: this locale cannot name it. Set LC_ALL=C.UTF-8.") from error
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged ({error}). Move it away to go on without it.") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path} is damaged: not a JSON object. Move it away to go on without it.")
    version = value.get("schema_version", 0)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise RecordError(f"{path} was written by a newer nemo_launch (schema {version}). Upgrade to read it.")
    return value
