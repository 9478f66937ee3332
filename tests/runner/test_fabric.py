"""The network between the nodes, as the batch script finds it on its node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.conftest import BatchJob

SCRIPT = """\
export NCCL_DEBUG=WARN NCCL_BUFFSIZE=8388608 FROM_LIB="$NCCL_LIB_DIR" LD_LIBRARY_PATH=/never PATH=/never
export QUOTED='a b
c' MINE=theirs
NOT_EXPORTED=1
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A fabric's directory, as a machine would ship it."""
    folder = tmp_path / "fabric"
    (folder / "lib").mkdir(parents=True)
    (folder / "env.sh").write_text(SCRIPT)
    return folder


def words(network: Path) -> list[str]:
    return [
        f"directory={network}", "name=tcpxo", f"source_env=NCCL_LIB_DIR={network}", f"source={network}/env.sh",
        "env=NCCL_SOCKET_IFNAME=eth0,eth1", "env=PREFIX=/run/x-%j", "env=MINE=theirs", f"mount={network}",
        "mount=/not/there", f"library_path={network}/lib",
    ]  # fmt: skip


def run(
    make_job: Callable[..., BatchJob], folder: Path, fabric: list[str], **more: object
) -> tuple[BatchJob, dict[str, str]]:
    values = {"scheduler": "slurm", "nodes": 2, "launcher": "srun", "language": "shell", **more}
    job = make_job(["-c", "env -0 >env-$RANK", "name"], fabric=fabric, **values)
    assert job.run(MINE="user's", LD_LIBRARY_PATH="/outer") == 0, job.log
    env = dict(entry.split("=", 1) for entry in (folder / "env-1").read_text().split("\0") if entry)
    assert not [name for name in env if name.startswith("nl_")]
    return job, env


def test_the_machines_script_then_the_values_then_the_users(
    make_job: Callable[..., BatchJob], folder: Path, network: Path
) -> None:
    job, env = run(make_job, folder, words(network), user_env=["MINE"])
    assert "network between the nodes: tcpxo\n" in job.log
    assert (env["NCCL_DEBUG"], env["NCCL_BUFFSIZE"], env["FROM_LIB"]) == ("WARN", "8388608", str(network))
    assert env["QUOTED"] == "a b\nc"
    assert env["NCCL_SOCKET_IFNAME"] == "eth0,eth1"
    assert env["PREFIX"] == "/run/x-77"
    assert env["MINE"] == "user's"
    assert env["LD_LIBRARY_PATH"] == f"{network}/lib:/outer"
    assert "/never" not in env["PATH"]
    assert not {"NOT_EXPORTED", "NCCL_LIB_DIR"} & set(env)
    assert "container" not in (folder / "bin" / "options").read_text()


def test_in_a_container_every_name_is_listed_and_what_exists_is_mounted(
    make_job: Callable[..., BatchJob], folder: Path, network: Path
) -> None:
    given = ["--container-image=x.sqsh", "--container-mounts=/a:/a", "--container-env=MINE"]
    run(make_job, folder, words(network), user_env=["MINE"], srun_args=given)
    options = (folder / "bin" / "options").read_text().splitlines()
    (listed,) = [option for option in options if option.startswith("--container-env=")]
    names = listed.partition("=")[2].split(",")
    assert names[0] == "MINE" and len(names) == len(set(names))
    assert {"NCCL_DEBUG", "NCCL_BUFFSIZE", "FROM_LIB", "QUOTED", "NCCL_SOCKET_IFNAME", "PREFIX"} == set(names[1:])
    assert f"--container-mounts=/a:/a,{network}:{network}" in options


def test_what_the_user_mounts_there_stays(make_job: Callable[..., BatchJob], folder: Path, network: Path) -> None:
    given = ["--container-image=x.sqsh", f"--container-mounts=/mine:{network}:ro"]
    run(make_job, folder, words(network), srun_args=given)
    assert f"--container-mounts=/mine:{network}:ro" in (folder / "bin" / "options").read_text().splitlines()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/mine:{0}/", "/mine:{0}/"),
        ("/a:/a,/mine:{0}/lib,/b:/b:ro", "/a:/a,{0}:{0},/mine:{0}/lib,/b:/b:ro"),
        ("/mine:{0}-2,/mine:{1}", "/mine:{0}-2,/mine:{1},{0}:{0}"),
    ],
    ids=["there already", "below it", "beside it and above"],
)
def test_a_mount_of_the_network_hides_none_of_the_users(
    make_job: Callable[..., BatchJob], folder: Path, network: Path, given: str, expected: str
) -> None:
    """Of two mounts the later one hides what lies below it."""
    places = (str(network), str(network.parent))
    words_given = ["--container-image=x.sqsh", f"--container-mounts={given.format(*places)}"]
    run(make_job, folder, words(network), srun_args=words_given)
    assert f"--container-mounts={expected.format(*places)}" in (folder / "bin" / "options").read_text().splitlines()


def test_the_first_that_is_there_is_used_and_its_absence_is_said(
    make_job: Callable[..., BatchJob], folder: Path, network: Path
) -> None:
    other = ["directory=/not/here", "name=gib", "env=NCCL_NET=gIB"]
    _, env = run(make_job, folder, [*other, *words(network), *other])
    assert "NCCL_NET" not in env and env["NCCL_DEBUG"] == "WARN"
    job, env = run(make_job, folder, other, name="none")
    assert "NCCL_NET" not in env
    assert "no network of this cluster type on node-0 (looked for /not/here)" in job.log


@pytest.mark.parametrize("text", ["exit 3", "set -eu; false", "exec false"])
def test_a_script_that_ends_the_shell_ends_nothing_else(
    make_job: Callable[..., BatchJob], folder: Path, network: Path, text: str
) -> None:
    (network / "env.sh").write_text(text)
    job, env = run(make_job, folder, words(network))
    assert f"cannot use {network}/env.sh" in job.log
    assert env["NCCL_SOCKET_IFNAME"] == "eth0,eth1"


def test_libraries_that_the_user_names_replace_those_of_the_network(
    make_job: Callable[..., BatchJob], folder: Path, network: Path
) -> None:
    word = ["LD_LIBRARY_PATH=/own"]
    _, env = run(make_job, folder, words(network), env=word)  # it came by inheritance
    assert env["LD_LIBRARY_PATH"] == f"{network}/lib:/own"
    _, env = run(make_job, folder, words(network), env=word, user_env=["LD_LIBRARY_PATH"], name="own")
    assert env["LD_LIBRARY_PATH"] == "/own"
