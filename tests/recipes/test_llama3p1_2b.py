"""The 2B recipe: its size, and its path through FSDP2 with a model that two processes can train."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import Lab, Launcher
from tests.recipes.conftest import StartRanks, checkpoints, losses
from tests.recipes.ranks import RECIPES, call, loaded

RECIPE = "pretrain/llama3p1_2b_pt.py"
REDUCED = [
    "model.hidden_size=64",
    "model.intermediate_size=128",
    "model.num_hidden_layers=2",
    "model.num_attention_heads=4",
    "model.num_key_value_heads=2",
    "model.vocab_size=512",
    "dataset.seq_len=64",
    "optimizer.lr=0.003",
    "lr_scheduler.warmup_steps=2",
]


def count_on_meta_device(folder: Path) -> None:
    import fiddle
    import torch

    sys.path.insert(0, str(RECIPES))
    with loaded(RECIPE) as root:
        config = fiddle.build(root.model)
    with torch.device("meta"):
        model = config.build(4096)
    rope = model.config.rope_parameters
    found = {"parameters": sum(weight.numel() for weight in model.parameters()), "rope": dict(rope)}
    (folder / "found.json").write_text(json.dumps(found))


@pytest.mark.usefixtures("torch_is_here")
def test_it_has_as_many_parameters_as_it_says(tmp_path: Path) -> None:
    call(count_on_meta_device, tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    stated = re.search(r"([\d,]+) parameters", (RECIPES / RECIPE).read_text())
    assert stated
    assert found["parameters"] == int(stated[1].replace(",", ""))
    assert 1.9e9 < found["parameters"] < 2.2e9
    assert found["rope"] == {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def test_its_path_with_a_reduced_model(start_ranks: StartRanks, text: Path) -> None:
    steps = ["step_scheduler.max_steps=20", "step_scheduler.checkpoint_interval=15"]
    run = start_ranks(RECIPE, *REDUCED, f"dataset.path={text}", *steps, ranks=2)
    assert run.wait() == [0, 0], run.log
    task = text.parent / "task"
    found = losses(task)
    assert found[1] > 6.0 > 5.0 > found[20]
    assert checkpoints(task) == ["latest", "step-000015", "step-000020"]
    assert (task / "checkpoints/step-000020/__1_0.distcp").stat().st_size > 10_000, "each rank saves its part"
    assert json.loads((task / "model" / "config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.slow
def test_its_path_over_two_nodes_goes_on_to_the_last_digit(
    make_launcher: Callable[[Lab | None], Launcher], slurm: Lab
) -> None:
    launcher = make_launcher(slurm)
    where = ["-e", "slurm", "-p", "a3m", "-d", str(launcher.work), "-n", "2", "--ntasks-per-node", "2", "--wait"]
    words = [*REDUCED, "dataset.max_bytes=100000", "step_scheduler.log_interval=1", "lr_scheduler.decay_steps=8"]

    def run(title: str, *more: str) -> Path:
        done = launcher(*where, "-s", RECIPE, "--experiment-name", title, *words, *more, timeout=170)
        assert done.returncode == 0, done.stdout + done.stderr
        return next((launcher.runs / "experiments" / title).iterdir()) / title

    first = run("first", "step_scheduler.max_steps=4")
    rest = run("rest", "step_scheduler.max_steps=8", f"restore_from.path={first}/checkpoints/latest")
    whole = run("whole", "step_scheduler.max_steps=8")
    assert list(losses(rest)) == [5, 6, 7, 8]
    assert {**losses(first), **losses(rest)} == losses(whole)
    assert (whole / "checkpoints" / "latest" / "__3_0.distcp").is_file(), "each rank of each node saves its part"
