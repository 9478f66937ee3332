"""What a recipe that was a Python object costs on its node, before its own imports and its own work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pairs

#: A launch script, so that functions travel as text, too; it leaves what the node needs in the folder of its argument.
_SCRIPT = """
import os, sys
import nemo_launch as nl
from nemo_launch.buildables.encode import encode

class Layer:
    def __init__(self, size, act="gelu", rate=0.1):
        self.size, self.act, self.rate = size, act, rate

def model(layers, names):
    return layers, names

def train(model, steps):
    assert len(model[0]) == 200

layers = [nl.Config(Layer, size=(n, n), rate=n / 7) for n in range(200)]
recipe = nl.Partial(train, model=nl.Config(model, layers=layers, names={n: {"a": n} for n in range(200)}), steps=3)
for name, data in encode(recipe, []).files.items():
    path = os.path.join(sys.argv[1], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
"""


def rows(checkout: str, folder: str, rounds: int) -> Iterator[tuple[str, str, float, float | None, str]]:
    """Starting a recipe of 202 configs, against a bare interpreter."""
    script = os.path.join(folder, "job.py")
    with open(script, "w") as file:
        file.write(_SCRIPT)
    subprocess.run([sys.executable, script, folder], env={**os.environ, "PYTHONPATH": checkout}, check=True)
    # -S: what the interpreter's own site-packages start is no cost of ours
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    bare, recipe = [sys.executable, "-S", "-c", "pass"], [sys.executable, "-S", os.path.join(folder, "recipe.py")]
    times = pairs.in_turn(rounds, bare=lambda: pairs.seconds(bare, env), recipe=lambda: pairs.seconds(recipe, env))
    extra = sorted(a - b for a, b in zip(times["recipe"], times["bare"], strict=True))[rounds // 2]
    yield (
        "a recipe's start on the node",
        "python -c pass",
        pairs.ratio(times, "recipe", "bare"),
        6,
        f"{1000 * extra:.0f} ms more",
    )
