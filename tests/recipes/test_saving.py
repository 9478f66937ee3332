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
