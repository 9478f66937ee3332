"""Groups on a real cluster: parts of a heterogeneous job, time to save before the end, restarts."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import Experiment, Script, SlurmExecutor
from nemo_launch.executors.base import Observation
from tests.lab import Lab

#: Says where it is; saves when it is asked to end, which takes a moment.
SERVER = """trap 'sleep 1; echo saved >saved-$RANK; exit 0' TERM
echo "$MASTER_ADDR $WORLD_SIZE $SLURMD_NODENAME" >up-$RANK
while :; do sleep 0.1; done
"""


def client(ranks: int, then: str) -> str:
    """Goes on when so many ranks of the server are there."""
    return f"while [ $(cat up-* 2>/dev/null | wc -l) -lt {ranks} ]; do sleep 0.1; done\n{then}\n"


class Place:
    """A folder that the nodes see, and the group that runs from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Experiment] = []

    def start(self, texts: dict[str, str], executors: list[SlurmExecutor], policy: str = "fail-fast") -> Experiment:
        for name, text in texts.items():
            (self.folder / f"{name}.sh").write_text(text)
        experiment = Experiment("group")
        with experiment:
            recipes = [Script(str(self.folder / f"{name}.sh")) for name in texts]
            experiment.add(recipes, executor=executors, name="both", policy=policy)
            experiment.run(detach=True)
        self.started.append(experiment)
        return experiment

    def ended(self, *how: Any, **more: Any) -> tuple[Observation, str]:
        """What became of it, and its log."""
        experiment = self.start(*how, **more)
        (status,) = experiment.wait(timeout=180)
        log = Path(status.job.paths.log(str(status.job.handle))).read_text()
        assert status.observation.state.final, log
        return status.observation, log

    def read(self, pattern: str) -> list[str]:
        return [path.read_text().strip() for path in sorted(self.folder.glob(pattern))]


@pytest.fixture
def place(slurm: Lab, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("NEMORUN_HOME", str(workspace / "runs"))
    monkeypatch.chdir(workspace)
    made = Place(workspace)
    yield made
    for experiment in made.started:
        experiment.cancel()


def here(**more: Any) -> SlurmExecutor:
    return SlurmExecutor(**{"partition": "a3m", "mem": "200M", "time": "5:00", **more})


def there(**more: Any) -> SlurmExecutor:
    """Other nodes: with these it is another part of the job."""
    return here(**{"partition": "a3u", "nodes": 2, "ntasks_per_node": 2, "mem": "300M", "gpus_per_node": 1, **more})


def test_commands_with_nodes_of_their_own_are_parts_of_one_job(place: Place) -> None:
    say = 'echo "$MASTER_ADDR $WORLD_SIZE $NEMO_LAUNCH_HOSTS_CLIENT $NEMO_LAUNCH_HOSTS_SERVER" >told'
    texts = {"client": client(4, say), "server": SERVER}
    seen, log = place.ended(texts, [here(setup='echo "client sets up on $(uname -n)"'), there()], "leader")
    assert (seen.state, seen.exit_code, seen.reason) == ("SUCCEEDED", 0, ""), log
    ((first, one), (second, two)) = seen.parts.items()
    assert first.endswith("+0") and second.endswith("+1")
    assert one.nodes in ("a3m-0", "a3m-1") and two.nodes == "a3u-[0-1]"
    assert (place.folder / "told").read_text() == f"{one.nodes} 1 {one.nodes} a3u-0,a3u-1\n"
    assert place.read("up-*") == ["a3u-0 4 a3u-0"] * 2 + ["a3u-0 4 a3u-1"] * 2
    assert place.read("saved-*") == ["saved"] * 4, log
    assert f"[client] client sets up on {one.nodes}\n" in log
    assert "client, the leader, has ended: the others are ended\n" in log


def test_the_batch_script_of_a_part_runs_on_its_own_first_node(place: Place) -> None:
    setup = 'echo "sets up on $SLURMD_NODENAME of $SLURM_JOB_NODELIST"'
    seen, log = place.ended({"a": "exit 0", "b": "exit 3"}, [here(), there(setup=setup)])
    assert (seen.state, seen.exit_code, seen.reason) == ("FAILED", 3, "b failed first: exit code 3"), log
    assert "[b] sets up on a3u-0 of a3u-[0-1]\n" in log
    assert [part.state for part in seen.parts.values()] == ["FAILED", "FAILED"]
    assert seen.failure and seen.failure.node.startswith("a3u-") and seen.failure.exit_code == 3


def test_a_command_that_never_began_is_the_failure_and_says_why(place: Place) -> None:
    seen, log = place.ended({"a": "exit 0", "b": "exit 0"}, [here(), here(setup="exit 3")], "wait-all")
    assert seen.state == "FAILED" and not seen.failure, log
    assert re.match(r"b failed first: exit code 3. setup", seen.reason), seen.reason


def test_the_others_may_save_after_a_failure(place: Place) -> None:
    texts = {"client": client(2, "exit 7"), "server": SERVER}
    seen, log = place.ended(texts, [here(), here(ntasks_per_node=2)])
    assert (seen.state, seen.exit_code, seen.reason) == ("FAILED", 7, "client failed first: exit code 7"), log
    assert not seen.parts  # they ask for the same: one plain job
    assert place.read("saved-*") == ["saved"] * 2, log


@pytest.mark.slow
@pytest.mark.parametrize("other", [here, there], ids=["plain", "parts"])
def test_who_does_not_end_is_killed(place: Place, other: Any) -> None:
    deaf = "trap : TERM\necho up >up-$RANK\nwhile :; do sleep 0.1; done\n"
    seen, log = place.ended({"client": client(1, "exit 0"), "deaf": deaf}, [here(), other(nodes=1)], "leader")
    assert (seen.state, seen.exit_code, seen.reason) == ("SUCCEEDED", 0, ""), log
    assert re.search(r"nemo_launch: deaf ended with exit code 1\d\d\n", log), log


def test_cancel_ends_all_parts(place: Place) -> None:
    experiment = place.start({"a": SERVER.replace("saved-$RANK", "saved-a"), "b": SERVER}, [here(), there(nodes=1)])
    deadline = time.monotonic() + 120
    while sum(text.count(" ") for text in place.read("up-*")) < 6:  # three of them, whole
        assert time.monotonic() < deadline
        time.sleep(0.2)
    (status,) = experiment.cancel()
    assert status.observation.state == "CANCELLED"
    assert [part.state for part in status.observation.parts.values()] == ["CANCELLED"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("other", [here, there], ids=["plain", "parts"])
def test_a_failure_starts_all_of_it_again_each_from_its_own_checkpoint(place: Place, other: Any) -> None:
    text = """echo "$NEMO_LAUNCH_ATTEMPT ${NEMO_LAUNCH_RESTORE_FROM##*/both/}" >>"$0.attempts"
mkdir -p $NEMO_LAUNCH_TASK_DIR/checkpoints/1; ln -sfn 1 $NEMO_LAUNCH_TASK_DIR/checkpoints/latest
"""
    last = f"cat {place.folder}/b.attempts"
    texts = {"a": "", "b": ""}
    for name in texts:
        texts[name] = text.replace("$0", f"{place.folder}/{name}")
    texts["a"] += f"[ $NEMO_LAUNCH_ATTEMPT = 1 ] || {{ while ! {last}; do sleep 0.1; done; exit 9; }}\n"
    texts["b"] += "[ $NEMO_LAUNCH_ATTEMPT = 1 ] || sleep 100\n"
    more = {"nodes": 1, "ntasks_per_node": 1, "resume_on": "error:9"}
    seen, log = place.ended(texts, [here(**more), other(**more)])
    assert (seen.state, seen.exit_code, seen.attempt) == ("SUCCEEDED", 0, 1), log
    for name in texts:
        assert place.read(f"{name}.attempts") == [f"0 \n1 {name}/checkpoints/latest"]


@pytest.mark.slow
def test_a_command_reaches_the_others_by_their_hosts(place: Place) -> None:
    serve = """import socket
server = socket.create_server(("", 23456))
print("up", file=open("up-0", "w"))
server.accept()[0].sendall(b"hello")
"""
    ask = """import os, socket
print(socket.create_connection((os.environ["NEMO_LAUNCH_HOSTS_SERVER"], 23456)).recv(9))
"""
    texts = {"client": client(1, f"{sys.executable} -c '{ask}'"), "server": f"exec {sys.executable} -c '{serve}'"}
    seen, log = place.ended(texts, [here(), there(nodes=1, ntasks_per_node=1)], "wait-all")
    assert seen.state == "SUCCEEDED" and "[client] b'hello'\n" in log, log
