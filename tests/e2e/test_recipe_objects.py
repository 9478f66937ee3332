"""Recipes as Python objects through the front door: on nodes that have neither this package nor fiddle nor torch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.scene import Scene, names

#: Has neither torch nor this package nor fiddle, as a node may have.
NODE_PYTHON = "/usr/bin/python3"

RECIPE = '''\
# /// script
# [tool.nemo-launch]
# time = "10"
# launcher = "srun"
# ///
"""Trains nothing."""
import enum
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import nemo_launch as nl
from helper import describe

SCALE = 2


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Model:
    layers: int
    sizes: tuple[int, ...] = (1, 2)
    colour: Colour = Colour.RED


@dataclass
class StepScheduler:
    max_steps: int = 10


def scaled(number: int) -> int:
    return number * SCALE


def train(model: Model, step_scheduler: StepScheduler, out: Path, label: str = "", shared: list = None) -> None:
    import sys

    missing = []
    for name in ("torch", "fiddle", "nemo_launch"):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    rank = os.environ.get("RANK", "0")
    seen = {
        "layers": scaled(model.layers), "sizes": model.sizes, "colour": model.colour.value, "label": label,
        "steps": step_scheduler.max_steps, "shared": shared[0] is model, "helper": describe(), "missing": missing,
        "world": os.environ.get("WORLD_SIZE"), "argv": sys.argv[1:], "cwd": os.getcwd(),
    }
    (out / f"rank-{rank}.new").write_text(json.dumps(seen))
    os.rename(out / f"rank-{rank}.new", out / f"rank-{rank}.json")


def recipe() -> nl.Partial:
    model = nl.Config(Model, layers=2)
    return nl.Partial(train, model=model, step_scheduler=nl.Config(StepScheduler), out=Path("out"), shared=[model])


if __name__ == "__main__":
    raise SystemExit("this file was executed")
'''
LABEL = "% @ * # = , : / 中文 $HOME `date`"


@pytest.fixture(autouse=True)
def _bare_python() -> None:
    check = "import importlib.util as u, sys; sys.exit(any(map(u.find_spec, ('torch', 'fiddle', 'nemo_launch'))))"
    if (
        not Path(NODE_PYTHON).exists()
        or subprocess.run([NODE_PYTHON, "-I", "-c", check], cwd="/", timeout=60).returncode
    ):
        pytest.skip(f"{NODE_PYTHON} is not there, or has what a node need not have")


def written(scene: Scene, out: Path) -> dict[int, dict[str, object]]:
    return {int(path.stem[5:]): json.loads(path.read_text()) for path in out.glob("rank-*.json")}


def launched(scene: Scene, *flags: str) -> dict[int, dict[str, object]]:
    launcher = scene.launcher
    out = launcher.user.make_dir(launcher.workspace / "out")
    launcher.write("helper.py", "def describe():\n    return 'at launch'\n")
    launcher.write("train_pt.py", RECIPE)
    fields = ("model.layers=3", "step_scheduler.max_steps=40", f"label={LABEL}", f"out={out}")
    done = scene(*flags, "--python", NODE_PYTHON, "-s", "train_pt.py", *fields)
    assert done.returncode == 0, done.stderr
    launcher.write("helper.py", "def describe():\n    return 'edited later'\n")
    assert names(scene.ended()) == ["SUCCEEDED"], scene.log()
    return written(scene, out)


SEEN = {
    "layers": 6, "sizes": [1, 2], "colour": "red", "label": LABEL, "steps": 40, "shared": True, "helper": "at launch",
    "missing": ["torch", "fiddle", "nemo_launch"], "argv": [],
}  # fmt: skip


def test_here_with_an_interpreter_that_has_nothing(here: Scene) -> None:
    (seen,) = launched(here, "--launcher", "none").values()
    assert seen == {**SEEN, "world": "1", "cwd": str(here.launcher.work)}


def test_there_on_two_nodes_with_two_ranks_each(there: Scene) -> None:
    seen = launched(there, "-e", "slurm", "-p", "a3m", "-n", "2", "--ntasks-per-node", "2")
    assert sorted(seen) == [0, 1, 2, 3]
    assert all(one == {**SEEN, "world": "4", "cwd": str(there.launcher.work)} for one in seen.values())


def test_a_typo_has_exit_code_2_and_leaves_nothing(there: Scene) -> None:
    there.launcher.write("helper.py", "def describe(): ...\n")
    there.launcher.write("train_pt.py", RECIPE)
    done = there("-e", "slurm", "-p", "a3m", "-s", "train_pt.py", "modle.layers=3", "step_scheduler.max_step=40")
    assert done.returncode == 2
    assert "train_pt.py: modle.layers: train takes no modle. Did you mean model?" in done.stderr
    assert "StepScheduler takes no max_step. Did you mean max_steps?" in done.stderr
    assert list(there.launcher.runs.iterdir()) == []
