"""The cluster: started and stopped by the scripts beside this file, used as the user without rights."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.user import LabUser

SCRIPTS = Path(__file__).resolve().parent
LAB = Path(os.environ.get("NEMO_LAUNCH_LAB", "/var/tmp/nemo-launch-lab"))
"""Where the default cluster lives."""


def why_not() -> str | None:
    """Why this machine cannot run the cluster; None when it can."""
    if os.geteuid() != 0:
        return "the cluster's daemons need root"
    programs = ["slurmctld", "slurmd", "srun", "slurmdbd", "munged", "mariadbd", "sshd", "ip", "setpriv", "nsenter"]
    search = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=search) is None]
    if missing:
        return f"missing: {', '.join(missing)} (on Debian, as root: tests/lab/slurm-up.sh --install)"
    return None


@dataclass(frozen=True)
class Lab:
    """One cluster. Without ``netns`` it has the machine's loopback ports, so there can be one such only."""

    directory: Path = LAB
    netns: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further NEMO_LAUNCH_LAB_* variables for the scripts; slurm-conf.sh lists them."""

    @classmethod
    def variant(cls, name: str, **settings: str) -> Lab:
        """Another cluster beside the default one, such as ``Lab.variant("noacct", ACCOUNTING="none")``."""
        directory = LAB.with_name(f"{LAB.name}-{name}")
        variables = {f"NEMO_LAUNCH_LAB_{key}": value for key, value in settings.items()}
        return cls(directory, directory.name, variables)

    @property
    def conf(self) -> Path:
        return self.directory / "etc" / "slurm.conf"

    @property
    def user(self) -> LabUser:
        return LabUser.get()

    def _script(self, name: str, *args: str) -> str:
        own = {"NEMO_LAUNCH_LAB": str(self.directory), "NEMO_LAUNCH_LAB_NETNS": self.netns or ""}
        outside = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "NEMO_LAUNCH_LAB"))}
        outside["PATH"] = outside.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        # Into a file and not a pipe: daemons that kept a pipe open would keep us waiting for its end.
        log = self.directory.with_name(f"{self.directory.name}.{name}.log")
        with log.open("w") as out:
            done = subprocess.run(
                [str(SCRIPTS / name), *args],
                env={**outside, **own, **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=300,
            )
        said = log.read_text()
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed:\n{said}")
        return said

    def start(self, *args: str) -> bool:
        """Starts what is not running. False when the controller was up before."""
        return " slurmctld\n" in self._script("slurm-up.sh", *args)

    def stop(self) -> None:
        """Cancels every job and stops the daemons; accounting and logs stay."""
        self._script("slurm-down.sh")

    @contextmanager
    def in_use(self) -> Iterator[Lab]:
        """The running cluster. Where a test session started it, the last session that uses it stops it."""
        ours = self.directory / "started-by-tests"
        with self.directory.with_name(f"{self.directory.name}.users").open("w") as users:
            fcntl.flock(users, fcntl.LOCK_SH)
            if self.start():
                ours.touch()
            try:
                yield self
            finally:
                with suppress(BlockingIOError):  # others use it
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if ours.exists():
                        self.stop()
                        ours.unlink()

    @property
    def prefix(self) -> list[str]:
        """What goes before an argv to run it as the user, where this cluster can be reached."""
        net = ["nsenter", f"--net=/run/netns/{self.netns}"] if self.netns else []
        return [*net, *self.user.prefix]

    def env(self, **more: str) -> dict[str, str]:
        """A clean environment in which Slurm's commands find this cluster."""
        user = self.user.name
        plain = {"USER": user, "LOGNAME": user, "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}
        return {**plain, "HOME": os.path.expanduser(f"~{user}"), "SLURM_CONF": str(self.conf), **more}

    def run_as_user(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = "/",
        timeout: float = 120,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as the user and returns its output; ``env`` replaces :meth:`env` altogether."""
        return subprocess.run(
            [*self.prefix, *argv],
            env=dict(self.env() if env is None else env),
            cwd=cwd,
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
        )

    def popen_as_user(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = "/",
        **kwargs: Any,
    ) -> subprocess.Popen[str]:
        """Starts a command as the user, in a session of its own; its pid is the command's own."""
        environment = dict(self.env() if env is None else env)
        return subprocess.Popen(
            [*self.prefix, *argv], env=environment, cwd=cwd, text=True, start_new_session=True, **kwargs
        )

    def slurm(self, *argv: str, timeout: float = 120) -> str:
        """What a Slurm command prints (without the last newline); RuntimeError when it fails."""
        done = self.run_as_user(argv, timeout=timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def jobs(self, under: Path | None = None) -> dict[str, str]:
        """Ids and states of the user's unfinished jobs: all, or those with script or directory ``under``."""
        found: dict[str, str] = {}
        rows = self.slurm("squeue", "-h", "-u", self.user.name, "-o", "%i\t%T\t%o\t%Z").splitlines()
        for job, state, script, directory in (row.split("\t", 3) for row in rows):
            if under is None or any(Path(p).is_relative_to(under) for p in (script, directory)):
                found[job] = state
        return found

    def scancel(self, *jobs: str) -> None:
        if jobs:
            self.slurm("scancel", *jobs)

    def wait_idle(self, under: Path | None = None, timeout: float = 120) -> None:
        """Waits until the jobs of :meth:`jobs` are gone; TimeoutError names those that are not."""
        deadline = time.monotonic() + timeout
        while left := self.jobs(under):
            if time.monotonic() > deadline:
                raise TimeoutError(f"still in the queue after {timeout:g} s: {left}")
            time.sleep(0.1)
