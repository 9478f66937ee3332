"""The parts of the trainer that need no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recipes.ranks import RECIPES


@given(size=st.integers(1, 3000), seed=st.integers(), epoch=st.integers(0, 10))
def test_every_epoch_has_each_sample_once(size: int, seed: int, epoch: int) -> None:
    from trainer.order import sample

    first = epoch * size
    assert sorted(sample(number, size, seed) for number in range(first, first + size)) == list(range(size))


def test_the_order_is_shuffled_and_another_in_every_epoch_and_with_every_seed() -> None:
    from trainer.order import sample

    orders = [
        [sample(number, 1000, seed) for number in range(e * 1000, (e + 1) * 1000)] for e in (0, 1) for seed in (1, 2)
    ]
    for order in orders:
        fixed = sum(index == number for number, index in enumerate(order))
        neighbours = sum(abs(a - b) == 1 for a, b in zip(order, order[1:], strict=False))
        assert fixed < 15 and neighbours < 15
    assert len({tuple(order) for order in orders}) == 4
    assert sample(123_456_789_012, 10**12, 7) < 10**12, "no list as long as the data"


@pytest.mark.parametrize(
    ("style", "expected"),
    [("constant", [0.5, 1, 1, 1, 1]), ("linear", [0.5, 1, 0.55, 0.1, 0.1]), ("cosine", [0.5, 1, 0.55, 0.1, 0.1])],
)
def test_learning_rates(style: str, expected: list[float]) -> None:
    from trainer.config import LrScheduler
    from trainer.schedule import factor

    config = LrScheduler(style=style, warmup_steps=2, decay_steps=6)
    assert [factor(step, config, 100) for step in (1, 2, 4, 6, 9)] == pytest.approx(expected)


def test_metrics_go_on_after_the_step_that_was_restored(tmp_path: Path) -> None:
    from trainer.metrics import MetricsFile

    file = tmp_path / "folder" / "metrics.jsonl"
    with MetricsFile(file, 0) as metrics:
        for step in (1, 2, 3):
            metrics.write({"step": step, "loss": float("nan")})
    with file.open("a") as torn:
        torn.write('{"step": 4, "lo')  # killed while it wrote
    with MetricsFile(file, 2) as metrics:
        metrics.write({"step": 3, "loss": 0.1})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in lines] == [(1, None), (2, None), (3, 0.1)]
    with MetricsFile(file, 0):
        assert file.read_text() == ""


def test_recipes_are_read_without_torch() -> None:
    program = """
import sys
sys.path[:0] = sys.argv[1:2]
for name in ("torch", "transformers", "numpy"):
    sys.modules[name] = None
import trainer.config, trainer.datasets, trainer.loop, trainer.models
"""
    subprocess.run([sys.executable, "-c", program, str(RECIPES)], check=True, timeout=60)
