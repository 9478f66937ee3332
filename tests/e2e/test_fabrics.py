"""Every GPU cluster type in containers: what its preset mounts and sets reaches the processes of every node.

The machines' folders are not on this one: the presets are the package's own, with all their paths moved below a folder
that looks like such a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_launch.config import presets
from tests.e2e.conftest import MakeScene
from tests.e2e.scene import Scene
from tests.lab import Lab
from tests.lab.pyxis import Images

#: They need a cluster of their own, which `make test` does not wait for.
pytestmark = pytest.mark.slow

#: What a machine ships beside its libraries.
SCRIPT = 'export NCCL_OF_SCRIPT="1 $NCCL_LIB_DIR" NCCL_BUFFSIZE=of-the-script NCCL_SOCKET_IFNAME=of-the-script\n'
#: Runs in the container, where nothing but busybox is.
SHOW = 'env | sed "s/^/env /"\nfor path; do if [ -d "$path" ]; then echo "there $path"; fi; done\n'
TYPES = [("hcc-a3m", "tcpxo"), ("hcc-a3u", "gib"), ("hcc-a4", "gib")]
TYPES += [("hcc-a3h", "tcpxo"), ("hcc-a3h", "gib"), ("hcc-a3h", "tcpx")]


def package_presets() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(Path(presets.__file__).with_name(presets.FILE).read_text())
    return found


def moved(value: Any, root: Path) -> Any:
    """The same with all absolute paths below that folder."""
    if isinstance(value, dict):
        return {key: moved(one, root) for key, one in value.items()}
    if isinstance(value, list):
        return [moved(one, root) for one in value]
    return f"{root}{value}" if isinstance(value, str) and value.startswith("/") else value


@dataclass
class Machine:
    """A user of a cluster with containers whose nodes have the folders of one network."""

    scene: Scene
    fabric: dict[str, Any]
    image: Path

    def seen(self, nodes: int, *words: str) -> tuple[str, dict[tuple[str, str], dict[str, str]], set[str]]:
        """One job: its log, the environment of each rank by (node, rank), and which mounts each of them has."""
        given = ["-e", "slurm", "-p", "a3m", "--slurm-type", "moved", "-i", str(self.image), "-n", str(nodes), *words]
        given += ["--ntasks-per-node", "2", "--cpus-per-task", "1", "--mem", "500M", "--launcher", "srun", "--wait"]
        done = self.scene(*given, "-s", "show.sh", "--", *self.fabric["mounts"])
        log = self.scene.log()
        assert done.returncode == 0, (done.stderr, log)
        env: dict[tuple[str, str], dict[str, str]] = {}
        there: dict[tuple[str, str], set[str]] = {}
        for node, rank, what, text in re.findall(r"^\[([^:\]]+):(\d+)\] (env|there) (.*)$", log, re.MULTILINE):
            env.setdefault((node, rank), {})
            there.setdefault((node, rank), set())
            if what == "env":
                name, _, value = text.partition("=")
                env[node, rank][name] = value
            else:
                there[node, rank].add(text)
        assert len(env) == 2 * nodes, log
        (same,) = {frozenset(paths) for paths in there.values()}
        return log, env, set(same)


@pytest.fixture(params=TYPES, ids="-".join)
def machine(
    request: pytest.FixtureRequest, make_scene: MakeScene, slurm_pyxis: Lab, images: Images
) -> Iterator[Machine]:
    kind, name = request.param
    scene = make_scene(slurm_pyxis)
    root = scene.launcher.workspace / "machine"
    known = package_presets()
    preset = {**known[known[kind].get("extends", kind)], **known[kind]}
    preset.pop("extends", None)
    preset["multi_node"] = moved(preset["multi_node"], root)
    preset["gpus_per_node"] = 2
    preset["exclusive"] = False  # the lab's nodes are shared with other tests
    scene.launcher.write("presets.yaml", yaml.safe_dump({"moved": preset}))
    (fabric,) = [one for one in preset["multi_node"] if one["name"] == name]
    for path in (fabric["directory"], fabric["library_path"], *fabric["mounts"]):
        if "%j" not in path:
            Path(path).mkdir(parents=True, exist_ok=True)
    if fabric.get("source"):
        Path(fabric["source"]).parent.mkdir(parents=True, exist_ok=True)
        Path(fabric["source"]).write_text(SCRIPT)
    scene.launcher.write("show.sh", SHOW)
    lines = [f"env {variable}=of-the-image" for variable in [*fabric["env_vars"], "NCCL_OF_SCRIPT", "NCCL_BUFFSIZE"]]
    image = scene.launcher.write("image.sqsh", images.without_bash.read_text() + "\n".join(lines) + "\n")
    yield Machine(scene, fabric, image)


def test_what_a_cluster_type_says_reaches_every_process_of_several_nodes(machine: Machine) -> None:
    fabric = machine.fabric
    log, ranks, there = machine.seen(2, "--env", "NCCL_BUFFSIZE=of-the-user")
    assert f"network between the nodes: {fabric['name']}\n" in log
    assert {node for node, _ in ranks} == {"a3m-0", "a3m-1"}
    (job,) = machine.scene.jobs()
    expected = {name: value.replace("%j", job) for name, value in fabric["env_vars"].items()}
    expected["NCCL_BUFFSIZE"] = "of-the-user"
    if fabric.get("source"):
        expected["NCCL_OF_SCRIPT"] = f"1 {fabric.get('source_env', {}).get('NCCL_LIB_DIR', '')}".rstrip()
        expected.setdefault("NCCL_SOCKET_IFNAME", "of-the-script")
    for env in ranks.values():
        assert {name: env.get(name, "").rstrip() for name in expected} == expected
        assert env["LD_LIBRARY_PATH"].split(":")[0] == fabric["library_path"]
    assert there == {path for path in fabric["mounts"] if "%j" not in path}


def test_on_one_node_nothing_of_the_network_is_used_although_it_is_there(machine: Machine) -> None:
    log, ranks, there = machine.seen(1)
    assert "network between the nodes" not in log
    assert there == set()
    for env in ranks.values():
        assert {env[name] for name in machine.fabric["env_vars"]} <= {"of-the-image"}
        assert env["NCCL_OF_SCRIPT"] == "of-the-image"
        assert machine.fabric["library_path"] not in env.get("LD_LIBRARY_PATH", "")


def test_a_folder_of_the_users_below_one_of_the_network_stays(machine: Machine) -> None:
    """The preset mounts all of it, and would hide what was mounted there before."""
    below = f"{machine.fabric['mounts'][0]}/below"
    scratch = machine.scene.launcher.user.make_dir(machine.scene.launcher.workspace / "scratch")
    machine.scene.launcher.user.make_dir(scratch / "inside")
    machine.fabric["mounts"].append(f"{below}/inside")
    Path(below).mkdir()
    _, _, there = machine.seen(2, "--mount", f"{scratch}:{below}")
    assert there == {path for path in machine.fabric["mounts"] if "%j" not in path}
