"""A SlurmExecutor on the real cluster, in this process, and short words for launching and asking."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nemo_launch.config.executor import SlurmConfig
from nemo_launch.config.structure import structure
from nemo_launch.executors.slurm import SlurmExecutor
from nemo_launch.transport import LocalTransport
from tests.conformance.site import Site
from tests.faults.wrappers import WrappedCommands, slow_sbatch
from tests.lab import Lab

#: A payload that waits for ``go``.
WAIT = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n"


def go(site: Site) -> None:
    """Let those payloads end."""
    (site.folder / "go").touch()


def ask(*argv: str) -> str:
    """One of Slurm's own commands, apart from the product."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


class Counting(LocalTransport):
    """This machine; remembers what was run."""

    def __init__(self) -> None:
        self.argvs: list[list[str]] = []
        self.prefix: list[str] = []
        """What leads to a cluster in a network namespace of its own."""

    def run(self, argv, **more):  # type: ignore[no-untyped-def]
        self.argvs.append(list(argv))
        return super().run([*self.prefix, *argv], **more)

    def programs(self) -> list[str]:
        """Names of the programs run so far, without the shell; forgets them."""
        names = [os.path.basename(argv[0]) for argv in self.argvs]
        self.argvs.clear()
        return names


@pytest.fixture
def transport() -> Counting:
    return Counting()


def make_site(lab: Lab, folder: Path, transport: Counting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Any of the clusters, its commands run by this process (as root)."""
    if lab.netns:
        transport.prefix = ["nsenter", f"--net=/run/netns/{lab.netns}"]
    for name in [name for name in os.environ if name.startswith(("NEMO_LAUNCH_", "SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    monkeypatch.setenv("NEMORUN_HOME", str(folder / "home"))

    def make(**fields: object) -> SlurmExecutor:
        return SlurmExecutor(structure(SlurmConfig, fields), transport=transport)

    site = Site(folder, make, {"mem": "100M"})
    yield site
    site.close()


@pytest.fixture
def site(slurm: Lab, workspace: Path, transport: Counting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The default cluster."""
    yield from make_site(slurm, workspace, transport, monkeypatch)


@pytest.fixture
def wrapped(
    site: Site, make_workspace: Callable[[], Path], user_python: Path, monkeypatch: pytest.MonkeyPatch
) -> WrappedCommands:
    """Stand-ins for Slurm's commands, first on PATH."""
    commands = slow_sbatch(make_workspace(), user_python)
    monkeypatch.setenv("PATH", f"{commands.directory}:{os.environ['PATH']}")
    return commands
