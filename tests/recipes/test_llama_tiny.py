"""The tiny Llama recipe under real torchrun: it learns, reports, and saves whole checkpoints."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if not (find_spec("torch") and find_spec("transformers")):
    pytest.skip("needs torch and transformers: pip install -e .[torch]", allow_module_level=True)

RECIPE = Path(__file__).parents[2] / "recipes" / "pretrain" / "llama_tiny_pt.py"
RANK_ENVIRONMENT = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"}
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in RANK_ENVIRONMENT and not name.startswith("NEMO_LAUNCH_")
} | {"HF_HUB_OFFLINE": "1"}


def command(*arguments: object, ranks: int = 1) -> list[str]:
    """How to start the recipe, under torchrun where there is more than one rank."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [sys.executable, *(torchrun if ranks > 1 else []), str(RECIPE), *map(str, arguments)]


def start(
    folder: Path, *arguments: object, ranks: int = 1, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    program, environment = command(*arguments, ranks=ranks), ENVIRONMENT | (env or {})
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)


def losses(metrics: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in map(json.loads, metrics.read_text().splitlines())}


def trainer_state(checkpoint: Path) -> dict[str, Any]:
    import torch  # here, so that collecting the tests does not load it

    state: dict[str, Any] = torch.load(checkpoint / "trainer.pt", weights_only=True)
    return state


def test_two_processes_learn_and_leave_whole_checkpoints(tmp_path: Path) -> None:
    run = start(tmp_path, ranks=2, env={"NEMO_LAUNCH_TASK_DIR": str(tmp_path)})

    assert run.returncode == 0, run.stderr
    for rank in (0, 1):
        assert len(re.findall(rf"rank {rank} WORLD_SIZE=2 MASTER_ADDR=", run.stdout)) == 1
    # the loss falls, in the log and in the metrics alike, and a byte of text is no longer a riddle
    logged = re.findall(r"^step (\d+)/60 loss ([0-9.]+) tokens/s ([0-9]+)$", run.stdout, re.M)
    measured = losses(tmp_path / "metrics.jsonl")
    assert [int(step) for step, _, _ in logged] == list(measured) == [1, *range(5, 61, 5)]
    assert [float(loss) for _, loss, _ in logged] == pytest.approx(list(measured.values()), abs=1e-3)
    assert measured[1] > 5.0 > 3.1 > measured[60]
    assert all(int(speed) > 0 for _, _, speed in logged)
    # the newest two checkpoints, nothing half written beside them
    checkpoints = tmp_path / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["latest", "step-000040", "step-000060"]
    assert os.readlink(checkpoints / "latest") == "step-000060"
    for step in (40, 60):
        folder = checkpoints / f"step-{step:06d}"
        assert trainer_state(folder)["step"] == step
        assert (folder / "model.safetensors").stat().st_size > 100_000


def test_a_restored_run_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    (text / "a.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 100)
    options = ["--data-dir", text, "--seq-len", 32, "--log-interval", 1, "--checkpoint-interval", 2]
    whole = start(tmp_path, *options, "--max-steps", 6, "--output-dir", "whole")
    half = start(tmp_path, *options, "--max-steps", 4, "--output-dir", "halves")
    latest = "halves/checkpoints/latest"
    rest = start(tmp_path, *options, "--max-steps", 6, "--output-dir", "halves", "--restore-from", latest)

    assert [run.returncode for run in (whole, half, rest)] == [0, 0, 0], rest.stderr
    expected, halves = losses(tmp_path / "whole/metrics.jsonl"), losses(tmp_path / "halves/metrics.jsonl")
    assert list(halves) == [1, 2, 3, 4, 5, 6]
    assert halves == pytest.approx(expected, abs=1e-4)


def test_asked_from_outside_it_saves_and_goes_on_or_saves_and_stops(tmp_path: Path) -> None:
    marker, checkpoints = tmp_path / "checkpoint-requested", tmp_path / "checkpoints"
    # left behind by a run that was killed while it saved
    (checkpoints / ".tmp-step-000003").mkdir(parents=True)
    (checkpoints / ".tmp-latest").symlink_to("step-000003")
    never = 1_000_000
    arguments = command("--output-dir", tmp_path, "--max-steps", never, "--checkpoint-interval", never)
    env = ENVIRONMENT | {"NEMO_LAUNCH_CHECKPOINT_REQUESTED": str(marker)}
    process = subprocess.Popen(arguments, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    try:
        steps = log_until(process, lambda: None, until="step 5/")
        assert not any(line.startswith("checkpoint") for line in steps)
        log_until(process, marker.touch, until="checkpoint ")
        log_until(process, lambda: process.send_signal(signal.SIGUSR1), until="checkpoint ")
        log_until(process, lambda: None, until="step ")  # it goes on
        log_until(process, lambda: process.send_signal(signal.SIGTERM), until="stopped by SIGTERM")
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
    kept = sorted(path.name for path in checkpoints.iterdir())
    assert len(kept) == 3, "the newest two and `latest`, which is sorted first; no temporary name"
    assert (checkpoints / "latest").resolve().name == kept[-1]
    assert [trainer_state(checkpoints / name)["step"] for name in kept[1:]] == [int(n[5:]) for n in kept[1:]]


def log_until(process: subprocess.Popen[str], act: Any, until: str) -> list[str]:
    """Does `act`, then reads the log up to the line that starts with `until`; the lines read."""
    act()
    lines, deadline = [], time.monotonic() + 60
    assert process.stdout
    for line in process.stdout:
        lines.append(line)
        if line.startswith(until):
            return lines
        assert time.monotonic() < deadline, f"no {until!r} in {lines}"
    raise AssertionError(f"ended without {until!r}: {lines}")


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        (["--data-dir", "no/such"], {}, "--data-dir no/such is not a directory"),
        (["--data-dir", "empty"], {}, "holds 0 bytes"),
        (["--restore-from", "empty"], {}, "--restore-from empty is no checkpoint"),
        (["--metrics", "no/such/file"], {}, "cannot write no/such/file: No such file or directory"),
        ([], {"WORLD_SIZE": "4"}, "WORLD_SIZE is 4 but RANK is not set"),
        (["--max-steps", "0"], {}, "0 is less than 1"),
    ],
)
def test_a_mistake_is_explained_in_one_paragraph(
    tmp_path: Path, arguments: list[str], env: dict[str, str], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    run = start(tmp_path, *arguments, env=env)
    assert run.returncode == 2
    assert says in run.stderr
    assert "Traceback" not in run.stderr
    assert "step 1/" not in run.stdout


def test_missing_torch_is_named_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')")
    run = start(tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert run.returncode == 2
    assert re.search(r"error: .* has no module torch\. .*pip install torch", run.stderr)
    assert "Traceback" not in run.stderr
