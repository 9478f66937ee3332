"""The tiny Llama recipe: it learns, reports, and explains mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.lab import Launcher
from tests.recipes.conftest import StartRanks, checkpoints, losses, progress

TINY = "pretrain/llama_tiny_pt.py"


@pytest.mark.slow
def test_two_processes_learn_and_leave_whole_checkpoints(start_ranks: StartRanks, tmp_path: Path) -> None:
    run = start_ranks(TINY, ranks=2)
    assert run.wait() == [0, 0], run.log
    for rank in (0, 1):
        assert len(re.findall(rf"rank {rank} WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=\d+ ", run.log)) == 1
    # the loss falls, in the log and in the metrics alike, and a byte of text is no longer a riddle
    logged = re.findall(r"^step (\d+)/60 loss ([0-9.]+) tokens/s ([0-9]+) ETA \d+:\d\d:\d\d$", run.log, re.M)
    measured = losses(tmp_path / "task")
    assert [int(step) for step, _, _ in logged] == list(measured) == [1, *range(5, 61, 5)]
    assert [float(loss) for _, loss, _ in logged] == pytest.approx(list(measured.values()), abs=1e-3)
    assert measured[1] > 5.0 > 3.2 > measured[60]
    assert all(int(speed) > 0 for _, _, speed in logged)
    # the newest two checkpoints, nothing half written beside them
    assert checkpoints(tmp_path / "task") == ["latest", "step-000040", "step-000060"]
    folder = tmp_path / "task" / "checkpoints"
    assert os.readlink(folder / "latest") == "step-000060"
    assert [progress(folder / name)["step"] for name in ("step-000040", "step-000060")] == [40, 60]
    assert (tmp_path / "task" / "model" / "model.safetensors").stat().st_size > 100_000


@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        (
            ["dataset.path=no/such", "restore_from.path=empty", "step_scheduler.max_steps=0", "parallel.strategy=fsdp"],
            {},
            [
                "dataset.path no/such does not exist on",
                "restore_from.path empty is no checkpoint of this trainer",
                "step_scheduler.max_steps is 0",
                "parallel.strategy is 'fsdp', but must be one of ddp, fsdp2",
            ],
        ),
        (["dataset.path=empty"], {}, ["dataset.path empty has no file that ends in .py"]),
        (["dataset.path=little"], {}, ["dataset.path little holds 3 tokens, too little for one sequence of 128"]),
        (["metrics.path=little/a.txt/file"], {}, ["cannot write", "Choose another metrics.path"]),
        (["checkpoint.dir=little/a.txt/folder"], {}, ["cannot make checkpoint.dir", "Choose another"]),
        (["step_scheduler.global_batch_size=3"], {}, ["global_batch_size 3 cannot be shared among 2 ranks"]),
        (["model.vocab_size=8"], {}, ["vocabulary is 256, but the model knows 8 tokens"]),
        ([], {"RANK": ""}, ["WORLD_SIZE is 2 but RANK is not set"]),
    ],
)
@pytest.mark.slow
def test_a_mistake_is_explained_in_one_paragraph(
    start_ranks: StartRanks, tmp_path: Path, words: list[str], env: dict[str, str], says: list[str]
) -> None:
    for folder in ("empty", "little"):
        (tmp_path / "task" / folder).mkdir(parents=True)
    (tmp_path / "task" / "little" / "a.txt").write_text("abc")
    run = start_ranks(TINY, *words, ranks=2, env=env)
    assert 2 in run.wait()
    for text in says:
        assert run.log.count(text) == 1
    assert "Traceback" not in run.log
    assert "step 1/" not in run.log


@pytest.mark.slow
def test_a_checkpoint_of_another_model_is_told_apart(start_ranks: StartRanks, text: Path) -> None:
    options = [f"dataset.path={text}", "export.enabled=false", "dataset.seq_len=16"]
    assert start_ranks(TINY, *options, "step_scheduler.max_steps=1").wait() == [0]
    run = start_ranks(TINY, *options, "restore_from.path=checkpoints/latest", "model.num_hidden_layers=3")
    assert run.wait() == [2]
    assert "is of a model of another shape: model.layers.2." in run.log
    assert "absent there and (128,) here" in run.log
    assert "Traceback" not in run.log
    run = start_ranks(TINY, *options, "restore_from.path=checkpoints/step-000009")
    assert run.wait() == [2]
    assert "does not exist on" in run.log and "checkpoints has step-000001." in run.log


def test_missing_torch_is_named_with_its_remedy(launcher: Launcher) -> None:
    launcher.write("torch.py", "raise ModuleNotFoundError('No module named torch', name='torch')")
    done = launcher("-d", str(launcher.work), "-s", TINY, "--launcher", "none")
    assert done.returncode == 1
    assert re.search(r"error: .* has no module torch\. .*pip install torch transformers numpy\.", done.stdout)
    assert "- Exit code: 2" in done.stdout
    assert "Traceback" not in done.stdout
