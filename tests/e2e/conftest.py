"""Fixtures of the end-to-end tests: the front door, a user without rights, real clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.scene import PAYLOAD, Scene
from tests.faults import slow_sbatch
from tests.lab import Lab, Launcher

MakeScene = Callable[..., Scene]


@pytest.fixture(scope="session")
def make_scene(
    make_launcher: Callable[[Lab | None], Launcher], make_workspace: Callable[[], Path], user_python: Path
) -> MakeScene:
    """``make_scene(lab, wrapped=True)``: a user in a folder of its own; wrapped: stand-ins for Slurm's commands."""

    def make(lab: Lab | None = None, wrapped: bool = False) -> Scene:
        launcher = make_launcher(lab)
        launcher.write("payload.sh", PAYLOAD, 0o755)
        return Scene(launcher, slow_sbatch(make_workspace(), user_python) if wrapped else None)

    return make


@pytest.fixture
def here(make_scene: MakeScene) -> Scene:
    """This machine, no cluster."""
    return make_scene()


@pytest.fixture
def there(make_scene: MakeScene, slurm: Lab) -> Scene:
    """The default cluster."""
    return make_scene(slurm)


@pytest.fixture
def wrapped(make_scene: MakeScene, slurm: Lab) -> Scene:
    """The default cluster, with stand-ins for its commands."""
    return make_scene(slurm, wrapped=True)
