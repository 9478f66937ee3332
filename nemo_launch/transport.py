"""The only way an executor touches commands and files: here, or (another class) at the end of a connection."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from nemo_launch import globs, here, records
from nemo_launch.errors import RecordError, SchedulerError, Unreachable


class Completed(NamedTuple):
    """A command that ended. Text is decoded as UTF-8 with ``surrogateescape``."""

    returncode: int
    stdout: str
    stderr: str


class CommandMissing(SchedulerError):
    """The program is not on PATH where the command should run."""


class Transport(Protocol):
    """Commands and files of one machine."""

    name: str
    """As shown in the status block: ``localhost`` or the login node's name."""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        meanwhile: Callable[[], None] | None = None,
    ) -> Completed:
        """Run a command to its end; ``env`` is its whole environment (None: as it is there).

        ``meanwhile`` is called once it has started: something to do here instead of waiting. It must not fail.

        Raises:
            CommandMissing: no such program, or it cannot be started.
            Unreachable: no end within ``timeout`` seconds.
        """

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes | None:
        """Bytes of a file from an offset; None where there is no such file. Opens it anew each time (NFS).

        Raises:
            RecordError: it is there and cannot be read.
        """

    def read_matching(self, patterns: Iterable[str]) -> dict[str, bytes]:
        """All files that match the glob patterns, whole, in one round trip. Keys are their paths.

        Those of another user that may not be read count as not there.
        """

    def readlinks(self, paths: Iterable[str]) -> dict[str, str]:
        """Targets of those symlinks that exist."""

    def exists(self, path: str) -> bool:
        """Whether something is there."""

    def write(self, path: str, data: bytes, mode: int = 0o644, sync: bool = True) -> None:
        """Write a file atomically, folders made as needed; ``sync``: it survives a crash of the machine."""

    def make_dirs(self, path: str, mode: int = 0o755) -> None:
        """Make a folder and its parents; a private one (0700) is private also when it was there before."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""

    def pids_mentioning(self, text: str) -> list[int]:
        """Processes of this user that have ``text`` in one of their arguments."""


class LocalTransport:
    """This machine."""

    name = "localhost"

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        meanwhile: Callable[[], None] | None = None,
    ) -> Completed:
        """See ``Transport.run``."""
        try:
            process = subprocess.Popen(
                list(argv),
                env=None if env is None else dict(env),
                cwd=None if here.known() else "/",  # sbatch refuses to run in a directory that was removed
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError as error:
            raise CommandMissing(f"{argv[0]} was not found on PATH. Is this a machine of the cluster?") from error
        except OSError as error:  # no permission, an environment that is too long, no memory
            raise CommandMissing(f"{argv[0]} cannot be started: {error.strerror}.") from error
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        # A timer, because wait() with a time limit sleeps and looks again, which costs a quick command a third more.
        timer = threading.Timer(timeout, end)
        timer.daemon = True
        timer.start()
        try:
            if meanwhile:
                meanwhile()
            stdout, stderr = process.communicate()
        except BaseException:
            process.kill()
            process.communicate()
            raise
        finally:
            timer.cancel()
        if late.is_set():
            raise Unreachable(f"{argv[0]} gave no answer within {timeout:g} s. Try again, or ask the site.")
        return Completed(
            process.returncode,
            stdout.decode("utf-8", "surrogateescape"),
            stderr.decode("utf-8", "surrogateescape"),
        )

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes | None:
        """See ``Transport.read``."""
        for last in (False, True):
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    return file.read() if limit is None else file.read(limit)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:  # ESTALE: the server replaced the file; a fresh open finds the new one
                if last:
                    raise RecordError(f"cannot read {path}: {error.strerror}.") from error
        return None

    def read_matching(self, patterns: Iterable[str]) -> dict[str, bytes]:
        """See ``Transport.read_matching``."""
        found: dict[str, bytes] = {}
        for path in globs.matching(patterns):
            data = self.read(path) if os.access(path, os.R_OK) else None
            if data is not None:
                found[path] = data
        return found

    def readlinks(self, paths: Iterable[str]) -> dict[str, str]:
        """See ``Transport.readlinks``."""
        found = {}
        for path in paths:
            with contextlib.suppress(OSError):
                found[path] = os.readlink(path)
        return found

    def exists(self, path: str) -> bool:
        """See ``Transport.exists``."""
        return os.path.lexists(path)

    def write(self, path: str, data: bytes, mode: int = 0o644, sync: bool = True) -> None:
        """See ``Transport.write``."""
        self.make_dirs(os.path.dirname(path))
        records.write_bytes(path, data, mode, sync)

    def make_dirs(self, path: str, mode: int = 0o755) -> None:
        """See ``Transport.make_dirs``."""
        try:
            os.makedirs(path, mode, exist_ok=True)
            if mode & 0o077 == 0:  # nobody else can have made it before us: chmod is for owners
                os.chmod(path, mode)
        except OSError as error:
            raise records.unwritable(path, error) from error

    def remove(self, path: str) -> None:
        """See ``Transport.remove``."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            try:
                os.unlink(path)
            except IsADirectoryError:
                import shutil

                shutil.rmtree(path, ignore_errors=True)

    def pids_mentioning(self, text: str) -> list[int]:
        """See ``Transport.pids_mentioning``."""
        needle, found = os.fsencode(text), []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                if any(needle in word for word in file.read().split(b"\0")):
                    found.append(int(entry))
        return found
