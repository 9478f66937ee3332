"""Runs that are stopped or killed half way, and go on as if nothing had happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.recipes.conftest import StartRanks, checkpoints, losses, progress

TINY = "pretrain/llama_tiny_pt.py"
SMALL = [
    "model.hidden_size=32",
    "model.intermediate_size=64",
    "dataset.seq_len=16",
    "step_scheduler.local_batch_size=2",
    "step_scheduler.log_interval=1",
    "export.enabled=false",
]
NEVER = 1_000_000
GO_ON = "restore_from.path=checkpoints/latest"


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("fsdp2", marks=pytest.mark.slow)])
def test_killed_half_way_it_goes_on_with_the_same_losses(start_ranks: StartRanks, text: Path, strategy: str) -> None:
    options = [*SMALL, f"dataset.path={text}", f"parallel.strategy={strategy}", "step_scheduler.checkpoint_interval=4"]
    options += ["lr_scheduler.style=cosine", "lr_scheduler.warmup_steps=3", "lr_scheduler.decay_steps=30"]
    whole, halves = text.parent / "whole", text.parent / "halves"
    run = start_ranks(TINY, *options, f"step_scheduler.max_steps={NEVER}", folder="halves", ranks=2)
    run.until(lambda: (halves / "checkpoints" / "latest").exists(), "a checkpoint")
    run.signal(signal.SIGKILL)
    assert run.wait() == [-signal.SIGKILL] * 2
    at = progress(halves / "checkpoints" / "latest")["step"]

    end = f"step_scheduler.max_steps={at + 5}"
    rest = start_ranks(TINY, *options, end, GO_ON, folder="halves", ranks=2)
    unbroken = start_ranks(TINY, *options, end, folder="whole", ranks=2)
    assert rest.wait() == unbroken.wait() == [0, 0], rest.log + unbroken.log
    assert f"restored step {at} from" in rest.log
    assert list(losses(whole)) == list(range(1, at + 6))
    assert losses(halves) == losses(whole), "to the last digit"


def test_told_to_end_it_saves_where_it_is_and_goes_on_from_there(start_ranks: StartRanks, text: Path) -> None:
    options = [*SMALL, f"dataset.path={text}", "step_scheduler.checkpoint_interval=1000000"]
    whole, halves = text.parent / "whole", text.parent / "halves"
    run = start_ranks(TINY, *options, f"step_scheduler.max_steps={NEVER}", folder="halves", ranks=2)
    run.says("step 3/")
    os.kill(run.processes[1].pid or 0, signal.SIGTERM)  # what reaches one rank counts for all
    assert run.wait() == [143, 143], run.log
    assert "stopped by SIGTERM after step" in run.log
    at = progress(halves / "checkpoints" / "latest")["step"]
    assert checkpoints(halves) == ["latest", f"step-{at:06d}"]
    assert list(losses(halves)) == list(range(1, at + 1))

    end = f"step_scheduler.max_steps={at + 3}"
    rest = start_ranks(TINY, *options, end, GO_ON, folder="halves", ranks=2)
    unbroken = start_ranks(TINY, *options, end, folder="whole", ranks=2)
    assert rest.wait() == unbroken.wait() == [0, 0], rest.log + unbroken.log
    assert losses(halves) == losses(whole)


@pytest.mark.slow
def test_asked_for_a_checkpoint_it_saves_and_goes_on(start_ranks: StartRanks, text: Path) -> None:
    task = text.parent / "task"
    for leftover in ("checkpoints/.tmp-step-000003", "checkpoints/.tmp-old-step-000001"):  # of killed processes
        (task / leftover).mkdir(parents=True)
    (task / "checkpoints" / ".tmp-latest").symlink_to("step-000003")
    options = [*SMALL, f"dataset.path={text}", f"step_scheduler.max_steps={NEVER}"]
    env = {"NEMO_LAUNCH_CHECKPOINT_REQUESTED": str(task / "checkpoint-requested")}
    run = start_ranks(TINY, *options, f"step_scheduler.checkpoint_interval={NEVER}", ranks=2, env=env)
    run.says("step 2/")
    assert "checkpoint /" not in run.log
    (task / "checkpoint-requested").touch()
    run.says("checkpoint /")
    run.signal(signal.SIGUSR1)
    run.until(lambda: run.log.count("checkpoint /") > 1, "another checkpoint")
    run.signal(signal.SIGTERM)
    assert run.wait() == [143, 143], run.log
    kept = checkpoints(task)
    assert len(kept) == 3, "the newest two and `latest`; nothing temporary"
    assert (task / "checkpoints" / "latest").resolve().name == kept[-1]
    assert [progress(task / "checkpoints" / name)["step"] for name in kept[1:]] == [int(name[5:]) for name in kept[1:]]


def test_killed_while_it_saves_it_leaves_whole_checkpoints_alone(start_ranks: StartRanks, text: Path) -> None:
    folder = text.parent / "task" / "checkpoints"
    options = [*SMALL, f"dataset.path={text}"]
    often = "step_scheduler.checkpoint_interval=1"
    run = start_ranks(TINY, *options, often, f"step_scheduler.max_steps={NEVER}", ranks=2)
    run.says("step 3/")
    run.until(lambda: list(folder.glob(".tmp-step-*/*")), "a checkpoint that is being written")
    run.signal(signal.SIGKILL)
    run.wait()
    at = progress(folder / "latest")["step"]
    assert at >= 2

    end = f"step_scheduler.max_steps={at + 1}"
    rest = start_ranks(TINY, *options, often, GO_ON, end, ranks=2)
    assert rest.wait() == [0, 0], rest.log
    assert progress(folder / "latest")["step"] == at + 1
    assert not list(folder.glob(".tmp*"))


@pytest.mark.slow
def test_a_rank_that_cannot_write_fails_the_run_and_spoils_nothing(start_ranks: StartRanks, text: Path) -> None:
    options = [*SMALL, f"dataset.path={text}", "step_scheduler.checkpoint_interval=2"]
    assert start_ranks(TINY, *options, "step_scheduler.max_steps=2", ranks=2).wait() == [0, 0]
    before = {path: path.stat().st_mtime_ns for path in (text.parent / "task" / "checkpoints").rglob("*")}
    for room in (
        2_000,
        60_000,
    ):  # too little for the random state; enough for that, too little for its part of the rest
        env = {"FILE_SIZE_LIMIT_OF_RANK_1": str(room)}
        run = start_ranks(TINY, *options, "step_scheduler.max_steps=4", GO_ON, ranks=2, env=env)
        assert 1 in run.wait()
        assert "cannot save a checkpoint in" in run.log
        assert "File too large" in run.log
        after = {path: path.stat().st_mtime_ns for path in (text.parent / "task" / "checkpoints").rglob("*")}
        assert after == before


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_another_number_of_ranks_goes_on_with_the_same_batches(
    start_ranks: StartRanks, text: Path, strategy: str, before: int, after: int
) -> None:
    options = [*SMALL, f"dataset.path={text}", f"parallel.strategy={strategy}"]
    size = "step_scheduler.global_batch_size=4"
    end = "step_scheduler.max_steps=8"
    whole = start_ranks(TINY, *options, size, end, folder="whole", ranks=before)
    assert start_ranks(TINY, *options, size, "step_scheduler.max_steps=4", ranks=before).wait() == [0] * before
    rest = start_ranks(TINY, *options, end, GO_ON, ranks=after)  # the size of the batch is the checkpoint's
    assert rest.wait() == [0] * after, rest.log
    assert whole.wait() == [0] * before
    assert losses(text.parent / "task") == pytest.approx(losses(text.parent / "whole"), abs=1e-5)
    assert progress(text.parent / "task/checkpoints/latest")["samples"] == 8 * 4


def test_the_newest_k_checkpoints_stay(start_ranks: StartRanks, text: Path) -> None:
    options = [*SMALL, f"dataset.path={text}", "step_scheduler.checkpoint_interval=1", "checkpoint.keep_last_k=3"]
    run = start_ranks(TINY, *options, "step_scheduler.max_steps=5")
    assert run.wait() == [0], run.log
    task = text.parent / "task"
    assert checkpoints(task) == ["latest", "step-000003", "step-000004", "step-000005"]
    # going on from an older one, it passes steps that are saved already: those are not overwritten
    again = start_ranks(TINY, *options, "step_scheduler.max_steps=4", "restore_from.path=checkpoints/step-000003")
    assert again.wait() == [0], again.log
    assert checkpoints(task) == ["latest", "step-000004", "step-000004-2", "step-000005"]
    assert (task / "checkpoints" / "latest").resolve().name == "step-000004-2"
