"""Containers on a real cluster, with a stand-in for pyxis: real mounts, real roots, images that lack this and that."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab, Launcher
from tests.lab.pyxis import Images


@dataclass
class Ship:
    """A user at the login node of a cluster with containers."""

    launcher: Launcher
    images: Images
    lab: Lab

    def run(self, *words: str | Path, **env: str) -> dict[str, Any]:
        """One job to its end: its task as JSON shows it, and its ``log`` and what was told as ``said``."""
        done = self.launcher("-e", "slurm", "-p", "a3m", "--mem", "500M", "--wait", "--json", *words, env=env)
        assert done.returncode in (0, 1), done.stderr
        (task,) = json.loads(done.stdout)["tasks"]
        log = Path(task["directory"], f"{task['job_id']}.log")
        return {**task, "log": log.read_text() if log.exists() else "", "said": done.stderr}

    def refused(self, *words: str | Path) -> str:
        """What is said of a launch that writes nothing."""
        done = self.launcher("-e", "slurm", "-p", "a3m", *words)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert not list(self.launcher.runs.iterdir())
        return done.stderr

    def config(self, **fields: object) -> tuple[str, Path]:
        return "--config", self.launcher.write("fields.yaml", json.dumps(fields))

    def on_node(self, node: str) -> Path:
        """A folder on that node's own disk, as it is seen from outside; see :attr:`local`."""
        folder = self.lab.directory / f"local-{node}" / self.local.name
        if not folder.exists():
            self.launcher.user.make_dir(folder)
        return folder

    @property
    def local(self) -> Path:
        """The same as the nodes see it; nothing is there for those where :meth:`on_node` made none."""
        workspace = self.launcher.workspace
        return self.lab.directory / "local" / f"{workspace.parent.name}-{workspace.name}"


#: They need a cluster of their own, which `make test` does not wait for.
pytestmark = pytest.mark.slow


@pytest.fixture
def ship(make_launcher: Callable[[Lab | None], Launcher], slurm_pyxis: Lab, images: Images) -> Iterator[Ship]:
    ship = Ship(make_launcher(slurm_pyxis), images, slurm_pyxis)
    yield ship
    for folder in ship.lab.directory.glob(f"local-*/{ship.local.name}"):
        shutil.rmtree(folder)


# -- what a job finds -----------------------------------------------------------------------------------------------


def test_a_script_needs_only_a_shell_and_finds_its_folders_where_they_are(ship: Ship) -> None:
    ship.launcher.write("lib/word.txt", "neighbour\n")
    ship.launcher.write(
        "a.sh", 'cat /etc/stand-in-image "$(dirname "$0")/lib/word.txt"\npwd\nls -d ~ /home/* /var/tmp/*\ntouch made\n'
    )
    ship.launcher.user.make_dir(ship.launcher.workspace / "data")
    task = ship.run("-i", ship.images.without_bash, "-s", "a.sh", "--data-dir", ship.launcher.workspace / "data")
    assert task["state"] == "SUCCEEDED", task
    lines = task["log"].splitlines()
    assert lines[:3] == ["without-bash", "neighbour", str(ship.launcher.work)]
    assert [line for line in lines[3:] if line.startswith("/")] == [str(ship.launcher.workspace.parent)]
    assert (ship.launcher.work / "made").exists()


def test_what_was_asked_for_wins_over_the_image_and_the_rest_is_the_images(ship: Ship) -> None:
    ship.launcher.write("a.sh", 'echo "$A|$B|$MY_TOKEN|$PATH|$PYTHONPATH"\n')
    words: list[str | Path] = ["-i", ship.images.full, "-s", "a.sh", "--env", "B=b,b", "--secret", "MY_TOKEN"]
    plain = ship.run(*words, MY_TOKEN="s3cr3t-$&'")
    path = f"{ship.images.python.parent}:/usr/local/bin:/usr/bin:/bin"
    assert plain["log"] == f"1|b,b|s3cr3t-$&'|{path}|/opt/of-the-image\n"
    asked = ship.run(*words, "--env", "A=2", "--env", "PATH=/bin:/usr/bin", "--env", "PYTHONPATH=/mine", MY_TOKEN="x")
    assert asked["log"] == "2|b,b|x|/bin:/usr/bin|/mine\n"


def test_the_copy_of_the_code_comes_before_the_images_python_path(ship: Ship) -> None:
    ship.launcher.write("neighbour.py", "WORD = 'copied'\n")
    ship.launcher.write("a.py", "import os, neighbour\nprint(neighbour.WORD, os.environ['PYTHONPATH'])\n")
    words: list[str | Path] = ["-i", ship.images.full, "-s", "a.py", "--launcher", "none", "--env", "PYTHONPATH=/mine"]
    task = ship.run(*words)
    assert re.fullmatch(r"copied \S*/snapshots/\w+:/mine:/opt/of-the-image\n", task["log"]), task


def test_torchrun_over_two_nodes(ship: Ship) -> None:
    ship.launcher.write(
        "t.py",
        "import os, torch, torch.distributed as dist\n"
        "torch.set_num_threads(1)\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.ones(1)\n"
        "dist.all_reduce(total)\n"
        "print(os.environ['RANK'], int(total), open('/etc/stand-in-image').read().strip())\n",
    )
    task = ship.run("-i", ship.images.full, "-s", "t.py", "-n", "2", "--ntasks-per-node", "2", "--mem", "2G")
    assert task["state"] == "SUCCEEDED", task
    for rank, node in enumerate(("a3m-0", "a3m-0", "a3m-1", "a3m-1")):
        assert f"[{node}:{rank}] {rank} 4 full\n" in task["log"]


def test_root_home_and_name_are_fields(ship: Ship) -> None:
    ship.launcher.write("a.sh", "touch /made 2>/dev/null && echo writable\ncat ~/word 2>/dev/null\nexit 0\n")
    home = Path("/home") / ship.launcher.user.name  # as the nodes know it
    inside = {"env_vars": {"HOME": str(home)}}
    script: list[str | Path] = ["-i", ship.images.without_bash, "-s", "a.sh"]
    ship.launcher.write("word", "at home\n")
    ship.launcher.user.can(["cp", str(ship.launcher.work / "word"), str(home / "word")])
    try:
        assert ship.run(*script, *ship.config(**inside))["log"] == ""
        wanted = {"container_writable": True, "container_mount_home": True, "container_name": "nemo"}
        task = ship.run(*script, *ship.config(**inside, **wanted))
        assert task["log"] == "writable\nat home\n"
        named = ship.lab.directory / "containers" / "a3m-0" / f"pyxis_{task['job_id']}_nemo-{task['job_id']}"
        assert (named / "made").exists()
        closed = {"container_writable": False, "container_mount_home": False}
        assert ship.run(*script, *ship.config(**inside, **closed))["log"] == ""
    finally:
        ship.launcher.user.can(["rm", str(home / "word")])


def test_an_image_of_a_registry(ship: Ship) -> None:
    reference = f"nvcr.io#{ship.launcher.workspace.parent.name}/nemo:25.02"
    ship.images.in_registry(reference, ship.images.without_bash)
    ship.launcher.write("a.sh", "cat /etc/stand-in-image\n")
    task = ship.run("-i", f"docker://{reference}", "-s", "a.sh")
    assert (task["state"], task["log"]) == ("SUCCEEDED", "without-bash\n")


# -- caches ---------------------------------------------------------------------------------------------------------

RENAME = """import os
cache = os.path.join(os.environ["TORCH_HOME"], "megatron")
os.makedirs(cache, exist_ok=True)
with open("gpt2-vocab.json", "w") as file:
    file.write("{}")
os.rename("gpt2-vocab.json", os.path.join(cache, "megatron-gpt-345m_vocab"))
print(cache)
"""


@pytest.mark.parametrize("cache", ["beside", "inside", None])
def test_a_download_can_be_renamed_into_the_cache(ship: Ship, cache: str | None) -> None:
    """The documented failure of tokenizers: Errno 18, Invalid cross-device link."""
    work = ship.launcher.write("place/work/a.py", RENAME).parent
    folders = {"beside": work.parent / "cache", "inside": work / "cache"}
    words: list[str | Path] = ["-i", ship.images.full, "-d", work, "-s", "a.py", "--launcher", "none"]
    if cache:
        words += ["--cache-dir", folders[cache]]
    task = ship.run(*words)
    assert task["state"] == "SUCCEEDED", task
    torch = folders[cache] / "torch" if cache else work / ".cache" / "torch"
    assert (torch / "megatron" / "megatron-gpt-345m_vocab").read_text() == "{}"
    assert "two mounts" not in task["said"]


def test_two_mounts_that_cannot_be_one_are_told(ship: Ship, make_workspace: Callable[[], Path]) -> None:
    """Even of one file system: a rename from one bind mount to another fails, here as everywhere."""
    cache = Path("/var/tmp") / f"cache-of-{ship.launcher.workspace.parent.name}-{ship.launcher.workspace.name}"
    ship.launcher.user.make_dir(cache)
    try:
        ship.launcher.write("a.py", RENAME)
        task = ship.run("-i", ship.images.full, "-s", "a.py", "--launcher", "none", "--cache-dir", cache)
        assert (task["state"], "Invalid cross-device link" in task["log"]) == ("FAILED", True)
        assert f"{cache} and {ship.launcher.work} are two mounts in the container" in task["said"]
    finally:
        ship.launcher.user.can(["rm", "-r", str(cache)])


def test_cache_folders_are_made_on_every_node(ship: Ship) -> None:
    folders = {node: ship.on_node(node) for node in ("a3m-0", "a3m-1")}
    ship.launcher.write("a.sh", 'ls -d "$HF_HOME" "$TORCH_HOME" && touch "$HF_HOME/$SLURMD_NODENAME"\n')
    task = ship.run("-i", ship.images.without_bash, "-s", "a.sh", "-n", "2", "--cache-dir", ship.local)
    assert task["state"] == "SUCCEEDED", task
    for node, folder in folders.items():
        assert [path.name for path in (folder / "huggingface").iterdir()] == [node]


def test_a_container_can_be_cancelled(ship: Ship) -> None:
    ship.launcher.write("a.sh", "echo under way\nsleep 300\n")
    words = ["-e", "slurm", "-p", "a3m", "--mem", "100M", "-i", str(ship.images.without_bash), "-s", "a.sh", "-n", "2"]
    assert ship.launcher(*words).returncode == 0
    deadline = time.monotonic() + 90
    while ship.launcher("logs", "a").stdout.count("under way") < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ship.launcher("cancel", "a").returncode == 0
    assert "- Status: CANCELLED\n" in ship.launcher("status", "a", "--wait").stdout


# -- what is missing ------------------------------------------------------------------------------------------------


def test_a_mount_that_one_node_lacks_is_named_with_the_node(ship: Ship) -> None:
    local = ship.local
    ship.on_node("a3m-0")
    ship.launcher.write("a.sh", "echo started\n")
    task = ship.run("-i", ship.images.without_bash, "-s", "a.sh", "-n", "2", "--mount", f"{local}:/data")
    assert (task["state"], task["exit_code"]) == ("FAILED", 78)
    assert task["reason"].startswith(f"{local} is missing on a3m-1. The container needs it")
    assert f"{local} is not on this machine; the nodes must see it" in task["said"]
    assert "started" not in task["log"]
    both = ship.run("-i", local / "i.sqsh", "-s", "a.sh", "-n", "2", "--mount", f"{local}:/data")
    assert f"{local}/i.sqsh is missing on a3m-0, a3m-1 (and 1 more, see the log)" in both["reason"]
    assert f"a3m-1 {local}\n" in both["log"]


def test_an_image_that_only_the_nodes_see_is_a_note(ship: Ship) -> None:
    for node in ("a3m-0", "a3m-1"):
        (ship.on_node(node) / "i.sqsh").write_text(ship.images.without_bash.read_text())
    ship.launcher.write("a.sh", "cat /etc/stand-in-image\n")
    image = ship.local / "i.sqsh"
    task = ship.run("-i", image, "-s", "a.sh")
    assert (task["state"], task["log"]) == ("SUCCEEDED", "without-bash\n")
    assert f"{image} is not on this machine; the nodes must see it" in task["said"]


@pytest.mark.parametrize(
    ("image", "launcher", "reason"),
    [
        (
            "without_python",
            "torchrun",
            "there is no python3 in the image on a3m-0. Python scripts need Python 3.8 or newer there",
        ),
        (
            "with_old_python",
            "none",
            "python3 is Python 3.6 in the image on a3m-0. Python scripts need Python 3.8 or newer",
        ),
    ],
)
def test_an_image_without_a_python_that_will_do(ship: Ship, image: str, launcher: str, reason: str) -> None:
    ship.launcher.write("a.py", "print('started')\n")
    task = ship.run("-i", getattr(ship.images, image), "-s", "a.py", "--launcher", launcher)
    assert (task["state"], task["exit_code"]) == ("FAILED", 127)
    assert task["reason"].startswith(reason)
    assert "started" not in task["log"]


def test_a_container_that_does_not_start_is_explained(ship: Ship) -> None:
    ship.launcher.write("a.sh", "echo started\n")
    half = ship.launcher.write("half.sqsh", "not an image\n")
    empty = ship.launcher.write("empty.sqsh", "stand-in image\nenv PATH=/bin\n")
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        (("-i", "docker://nvcr.io#nope:1"), r"returned error code: 401 Unauthorized\. Are the image's name and tag"),
        (("-i", half), r"Invalid image format: \S*/half\.sqsh\. It is no image, or half of one"),
        (("-i", empty), r"execve\(\): sh: No such file or directory\. The image needs /bin/sh"),
        (
            ("-i", ship.images.without_bash, *ship.config(container_workdir="/nowhere")),
            r"couldn't chdir to /nowhere: No such file or directory\. Set container_workdir",
        ),
    ]
    for words, reason in cases:
        task = ship.run("-s", "a.sh", *words)
        assert task["state"] == "FAILED" and "started" not in task["log"]
        assert re.match(rf"the container did not start on a3m-[01]: .*{reason}", task["reason"]), task["reason"]


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mount", "/data dir:/d"], "'/data dir' holds ' ', which pyxis cannot mount"),
        (["--mount", "/a,b:/c"], "'/a,b' holds ',', which pyxis cannot mount"),
        (["--mount", "rel:/x"], "'rel' is not an absolute path"),
        (["-i", "gs://bucket/nemo.sqsh"], "gcloud storage cp gs://bucket/nemo.sqsh"),
    ],
)
def test_what_pyxis_cannot_do_is_refused(ship: Ship, words: list[str], said: str) -> None:
    ship.launcher.write("a.sh", "true\n")
    assert said in ship.refused("-s", "a.sh", "-i", "/images/i.sqsh", *words)


def test_a_site_without_pyxis(slurm_launcher: Launcher) -> None:
    slurm_launcher.write("a.sh", "echo started\n")
    done = slurm_launcher("-e", "slurm", "-p", "a3m", "-s", "a.sh", "-i", "/images/i.sqsh")
    assert done.returncode == 2 and "this site has no pyxis, so srun cannot start containers" in done.stderr
    done = slurm_launcher("-e", "slurm", "-p", "a3m", "-s", "a.sh", "--follow")
    assert done.returncode == 0 and done.stdout.startswith("started\n")
