"""The documented launch of the Vertex guide, letter for letter, in its own layout, with a stand-in for pyxis."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import Lab, Launcher
from tests.lab.pyxis import Images

LAUNCH = """\
export NEMORUN_HOME=$WORK_DIR
python3 run.py -e slurm --slurm-type hcc-a3m --partition a3m \\
  -d $WORK_DIR -i $WORK_DIR/nemo-demo.sqsh \\
  -s pretrain/llama3p1_2b_pt.py -n 2 --experiment-name nemo-demo-run
"""
#: What the guide's recipe asks of a launch, without the training: neighbours, 16 processes, a tokenizer that is
#: downloaded into the current directory and renamed into the cache.
RECIPE = """\
import os
from words import WORD
rank, where = int(os.environ["RANK"]), open("/etc/stand-in-image").read().strip()
cache = os.path.join(os.environ["TORCH_HOME"], "megatron")
os.makedirs(cache, exist_ok=True)
with open(f"vocab-{rank}.json", "w") as file:
    file.write("{}")
os.rename(f"vocab-{rank}.json", os.path.join(cache, f"vocab-{rank}"))
print(WORD, rank, "of", os.environ["WORLD_SIZE"], "in", where, "at", os.getcwd(), os.environ["MASTER_ADDR"],
      "token" if os.environ.get("HF_TOKEN") == "t0ken" else "no token")
"""
IMAGE_SIZE = 200 * 2**20


@pytest.fixture
def clone(make_launcher: Callable[[Lab | None], Launcher], slurm_pyxis: Lab, images: Images) -> tuple[Launcher, Path]:
    """A clone with the recipe, its neighbours, and the image in it."""
    launcher = make_launcher(slurm_pyxis)
    place = launcher.user.make_dir(launcher.workspace / "nemo-demo")
    for name in ("nemo_launch", "recipes"):
        shutil.copytree(launcher.checkout / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(launcher.checkout / "run.py", place)
    (place / "recipes" / "pretrain" / "words.py").write_text("WORD = 'rank'\n")
    (place / "recipes" / "pretrain" / "llama3p1_2b_pt.py").write_text(RECIPE)
    shutil.copy(images.full, place / "nemo-demo.sqsh")
    os.truncate(place / "nemo-demo.sqsh", IMAGE_SIZE)
    subprocess.run(["chown", "-R", f"{launcher.user.uid}:{launcher.user.gid}", str(place)], check=True, timeout=60)
    git = [*launcher.user.prefix, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(place)]
    for words in (["init", "-q"], ["add", "run.py", "nemo_launch", "recipes"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True, timeout=60, env=launcher.env())
    return launcher, place


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_the_documented_launch_works_in_its_own_layout(clone: tuple[Launcher, Path]) -> None:
    launcher, place = clone
    env = {**launcher.env(), "WORK_DIR": str(place), "HF_TOKEN": "t0ken"}
    del env["NEMORUN_HOME"]

    def bash(text: str) -> str:
        argv = [*launcher.prefix, "bash", "-e", "-c", text]
        done = subprocess.run(
            argv, env=env, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = bash(LAUNCH)
    block = re.match(
        r"Experiment Status for (nemo-demo-run_\d+)\n\nTask 0: nemo-demo-run\n- Status: \w+\n"
        r"- Executor: SlurmExecutor on @localhost\n- Job id: (\d+)\n- Local Directory: (\S+)\n",
        printed,
    )
    assert block, printed
    assert block[3] == str(place / "experiments" / "nemo-demo-run" / block[1] / "nemo-demo-run")
    bash(f"NEMORUN_HOME=$WORK_DIR python3 run.py status {block[1]} --wait")
    log = Path(block[3], f"{block[2]}.log").read_text()
    lines = sorted(
        re.findall(r"^\[(a3m-[01]):\d+\] rank (\d+) of 16 (.*)$", log, re.MULTILINE), key=lambda x: int(x[1])
    )
    assert lines == [
        (f"a3m-{rank // 8}", str(rank), f"in full at {place} a3m-0 token") for rank in range(16)
    ], log  # fmt: skip
    assert len(list((place / ".cache" / "torch" / "megatron").iterdir())) == 16

    (snapshot,) = (place / "snapshots").iterdir()
    assert size_of(snapshot) < 5 * 2**20
    assert {path.name for path in snapshot.iterdir()} == {"run.py", "nemo_launch", "recipes"}
    assert "t0ken" not in "".join(path.read_text() for path in Path(block[3]).rglob("*") if path.is_file())

    # What the first run left in the clone changes nothing for the next: the same copy of the code.
    dry = bash(LAUNCH.rstrip() + " --dry-run")
    assert snapshot.name in dry
