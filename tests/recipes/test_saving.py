"""Saving holds the other ranks up for no longer than the writing itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.recipes.ranks import RECIPES, free_port

#: The first rank gives a checkpoint its name, and removes old ones, only once the other rank says that it goes on.
CODE = """\
import sys, time
from pathlib import Path
sys.path.insert(0, {recipes!r})
import torch
from trainer import checkpoints, group
from trainer.config import Checkpoint
from trainer.ranks import Rank

folder, rank = Path({folder!r}), int(sys.argv[1])
ours = group.Group(Rank(rank, rank, 2), 2, always=False)

def until_the_other_goes_on(act):
    def waits(self, *args):
        deadline = time.monotonic() + 90
        while not (folder / "goes on").exists():
            if time.monotonic() > deadline:
                sys.exit("the other rank is held up")
            time.sleep(0.01)
        return act(self, *args)
    return waits

checkpoints.Checkpoints._publish = until_the_other_goes_on(checkpoints.Checkpoints._publish)
checkpoints.Checkpoints._remove_old = until_the_other_goes_on(checkpoints.Checkpoints._remove_old)
saver = checkpoints.Checkpoints(Checkpoint(dir=str(folder / "checkpoints")), ours)
saver.save(checkpoints.Progress(1, 8, 8, 2, 0, "data"), {{"weight": torch.ones(1000)}})
if rank == 1:
    (folder / "goes on").touch()
saver.close()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("torch_is_here")
def test_the_others_go_on_once_every_part_is_on_disk(tmp_path: Path) -> None:
    port = free_port()
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "PATH": "/usr/bin:/bin"}
    code = CODE.format(recipes=str(RECIPES), folder=str(tmp_path))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank)],
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert (tmp_path / "checkpoints" / "latest" / "progress.json").is_file()


ELSEWHERE = """\
import os, sys
from pathlib import Path
sys.path.insert(0, {recipes!r})
import torch
from trainer import checkpoints, group
from trainer.config import Checkpoint
from trainer.ranks import Rank

saver = checkpoints.Checkpoints(Checkpoint(dir=sys.argv[1], keep_last_k=1), group.Group(Rank(0, 0, 1), 2, always=False))
for step in (1, 2, 3):
    saver.save(checkpoints.Progress(step, 8, 8, 1, 0, "data"), {{"weight": torch.ones(1000)}})
saver.close()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("torch_is_here")
@pytest.mark.parametrize("writable", [True, False])
def test_a_restart_finds_what_was_saved_elsewhere(tmp_path: Path, writable: bool) -> None:
    """In the task's folder is what the launcher names to the next attempt, and nothing of another run."""
    task, elsewhere = tmp_path / "task", tmp_path / "elsewhere"
    (elsewhere / "step-000009").mkdir(parents=True)
    (elsewhere / "latest").symlink_to("step-000009")  # another run's
    task.mkdir()
    if not writable:
        (task / "checkpoints").touch()
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE.format(recipes=str(RECIPES)), "elsewhere"],
        env={"PATH": "/usr/bin:/bin", "NEMO_LAUNCH_TASK_DIR": str(task)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    if writable:
        assert (task / "checkpoints" / "latest").readlink() == elsewhere / "step-000003"
        assert (task / "checkpoints" / "latest" / "progress.json").is_file()
    else:
        assert "a restart will not find elsewhere/step-000003" in done.stdout
