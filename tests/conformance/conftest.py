"""The executors that the suite tries. A new one joins with its parameter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_launch.config.executor import LocalConfig, SlurmConfig
from nemo_launch.config.structure import structure
from nemo_launch.executors.base import Executor
from tests.conformance.site import Site


def make_local(**fields: object) -> Executor:
    from nemo_launch.executors.local import LocalExecutor

    return LocalExecutor(structure(LocalConfig, fields))


def make_slurm(**fields: object) -> Executor:
    from nemo_launch.executors.slurm import SlurmExecutor

    return SlurmExecutor(structure(SlurmConfig, fields))


@pytest.fixture(params=["local", pytest.param("slurm", marks=pytest.mark.slurm)])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """One executor in an empty folder, whose name a shell would stumble over."""
    for name in [name for name in os.environ if name.startswith("NEMO_LAUNCH_")]:
        monkeypatch.delenv(name)
    if request.param == "local":
        made = Site(tmp_path / "it's a $HOME; %j", make_local, {"grace": "0:02"})
        made.folder.mkdir()
    else:
        lab = request.getfixturevalue("slurm")
        monkeypatch.setenv("SLURM_CONF", str(lab.conf))
        made = Site(request.getfixturevalue("workspace"), make_slurm, {})
    yield made
    made.close()
