"""One rank of a program that is not Python, in an image that has a shell and little else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_launch.executors.base import Failure
from nemo_launch.runner import files
from tests.runner.conftest import BatchJob, until
from tests.runner.test_rank import VALUES, WORDS, check_lines

MakeJob = Callable[..., BatchJob]
Write = Callable[..., Path]
TOOLS = ("cat", "date", "env", "fold", "head", "ln", "mkfifo", "printf", "rm", "seq", "sleep", "tee", "tr", "uname")


@pytest.fixture(params=["dash", "bash", "busybox"])
def shell(request: pytest.FixtureRequest, folder: Path) -> tuple[str, str]:
    """(shell that runs rank.sh, PATH of its image)."""
    found = shutil.which(request.param)
    if not found:
        pytest.skip(f"{request.param} is not installed")
    tools = folder / "image"
    tools.mkdir()
    if request.param == "busybox":
        for applet in ("sh", *TOOLS):
            (tools / applet).symlink_to(found)
        return str(tools / "sh"), str(tools)
    return found, os.environ["PATH"]


def run(
    shell: tuple[str, str], folder: Path, words: list[str], launcher: str = "none", **env: str
) -> subprocess.CompletedProcess[bytes]:
    (folder / "ranks").mkdir(exist_ok=True)
    return subprocess.run(
        [shell[0], _rank_sh(folder), launcher, folder / "ranks", folder, "0", "0", *words],
        env={"PATH": shell[1], "SLURMD_NODENAME": "node-0", **env},
        capture_output=True,
        timeout=150,
    )


def place(rank: int, world: int = 2) -> dict[str, str]:
    return {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0", "SLURM_NTASKS": str(world)}


def test_arguments_and_environment_arrive_as_given(shell: tuple[str, str], folder: Path, write: Write) -> None:
    script = write(
        "tell.sh",
        'env > env; { printf "%s\\0" "$@"; for n in $(seq 0 12); do eval "printf \'%s\\0\' \\"\\$V$n\\""; done; '
        'printf "%s\\0" "$http_proxy" "$Mixed_Case"; } > told',
    )
    for launcher, env in (("none", {}), ("srun", place(0))):
        assert run(shell, folder, [str(script), *WORDS], launcher, **env, **VALUES).returncode == 0
        told = (folder / "told").read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
        assert told == [*WORDS, *VALUES.values()]
        assert "nl_" not in (folder / "env").read_text(errors="replace")
    assert not (folder / "p").exists()


def test_one_rank_has_its_bytes_untouched(shell: tuple[str, str], folder: Path, write: Write) -> None:
    done = run(shell, folder, [str(write("x.sh", "printf 'a\\rb\\000\\377no end'; exit 7"))])
    assert (done.returncode, done.stdout) == (7, b"a\rb\0\xffno end")
    failure = json.loads((folder / "ranks" / "first-failure.json").read_text())
    assert (failure["exit_code"], failure["rank"], failure["node"], failure["signal"]) == (7, 0, "node-0", None)


def test_ranks_are_labelled_and_have_logs(shell: tuple[str, str], folder: Path, write: Write) -> None:
    script = write(
        "x.sh", "echo $RANK of $WORLD_SIZE; printf 'in  one'; sleep 0.2; printf ' \\\\n line\\377\\nno end' >&2; exit 7"
    )
    done = run(shell, folder, [str(script)], "srun", **place(1))
    assert done.returncode == 7
    assert done.stdout.split(b"\n") == [
        b"[node-0:1] 1 of 2",
        b"[node-0:1] in  one \\n line\xff",
        b"[node-0:1] no end",
        b"nemo_launch: rank 1 on node-0 failed first: exit code 7",
        b"",
    ]
    assert (folder / "ranks" / "rank-1.log").read_bytes() == b"1 of 2\nin  one \\n line\xff\nno end"
    assert not list((folder / "ranks").glob("*.pipe*"))


def _whole(output: bytes, label: bytes) -> bytes:
    """The pieces of one line, put together."""
    pieces = output.split(b"\n")[:-1]
    assert all(piece.startswith(label) and len(piece) < 1000 for piece in pieces)
    return b"".join(piece[len(label) :] for piece in pieces)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["head -c 1000000 /dev/zero | tr '\\000' A", "seq 150000 | tr '\\n' '\\r'"])
def test_a_long_line_costs_little_more_than_a_short_one(
    shell: tuple[str, str], folder: Path, write: Write, program: str
) -> None:
    short = write("short.sh", "seq 40 | while read -r n; do seq 5000; done; exit 3")  # as many bytes
    usual = 0.0
    for _ in range(2):
        began = time.monotonic()
        assert run(shell, folder, [str(short)], "srun", **place(0)).returncode == 3
        usual = max(usual, time.monotonic() - began)
    script = write("long.sh", f"{program}; echo; exit 7")
    began = time.monotonic()
    done = run(shell, folder, [str(script)], "srun", **place(1))
    assert time.monotonic() - began < 10 * usual + 10  # minutes, where each piece costs the rest of the line
    assert done.returncode == 7
    line = done.stdout.split(b"nemo_launch:")[0]
    logged = (folder / "ranks" / "rank-1.log").read_bytes()
    assert _whole(line, b"[node-0:1] ") == logged[:-1]
    assert len(logged) > 900_000
    assert not list((folder / "ranks").glob("*.pipe*"))


def test_what_follows_a_long_line_is_not_lost(shell: tuple[str, str], folder: Path, write: Write) -> None:
    script = write("x.sh", "head -c 3000000 /dev/zero | tr '\\000' A; echo; seq 40000; exit 7")
    done = run(shell, folder, [str(script)], "srun", **place(1))
    assert done.returncode == 7
    numbers = b"".join(b"%d\n" % n for n in range(1, 40001))
    assert (folder / "ranks" / "rank-1.log").read_bytes().endswith(b"A\n" + numbers)
    assert numbers.replace(b"\n", b"\n[node-0:1] ")[:-12] in done.stdout


def test_the_labeller_ends_with_a_cancelled_rank(shell: tuple[str, str], folder: Path, write: Write) -> None:
    script = write("x.sh", "head -c 3000000 /dev/zero | tr '\\000' A; echo; : > written; exec sleep 60")
    (folder / "ranks").mkdir()
    with open(folder / "log", "wb") as log:
        rank = subprocess.Popen(
            [shell[0], _rank_sh(folder), "srun", folder / "ranks", folder, "0", "0", script],
            env={"PATH": shell[1], "SLURMD_NODENAME": "node-0", **place(0)},
            stdout=log,
            start_new_session=True,
        )
    until(lambda: (folder / "written").exists())
    os.killpg(rank.pid, signal.SIGTERM)
    assert rank.wait(15) != 0
    until(lambda: not _group(rank.pid), 5)


def _group(number: int) -> list[str]:
    """The processes of a group that are no zombies."""
    listed = subprocess.run(["ps", "-e", "-o", "pgid=,stat=,args="], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [row[2] for row in rows if int(row[0]) == number and not row[1].startswith("Z")]


def test_success_is_recorded(shell: tuple[str, str], folder: Path, write: Write) -> None:
    assert run(shell, folder, [str(write("x.sh", "exit 0"))], "srun", **place(1)).returncode == 0
    assert {path.name for path in (folder / "ranks").iterdir()} == {"rank-1.ok", "rank-1.log"}


@pytest.mark.parametrize("text", ["kill -9 $$", "exit 137"])
def test_only_what_is_known_to_be_a_signal_is_called_one(
    shell: tuple[str, str], folder: Path, write: Write, text: str
) -> None:
    assert run(shell, folder, [str(write("x.sh", text))], "srun", **place(0)).returncode == 137
    failure = json.loads((folder / "ranks" / "first-failure.json").read_text())
    assert (failure["exit_code"], failure["signal"]) == (137, None)
    assert "exit 137 (as after SIGKILL)" in str(Failure(0, "node-0", 137))


def test_variables_that_would_change_the_tools_reach_the_program_alone(
    shell: tuple[str, str], folder: Path, write: Write
) -> None:
    words = ["PATH=/x", "BASH_ENV=/nonexistent/env", "POSIXLY_CORRECT=1", "IFS=:", "LD_LIBRARY_PATH=/a b"]
    script = write("x.sh", 'echo "$PATH|$BASH_ENV|$POSIXLY_CORRECT|$LD_LIBRARY_PATH|$1"')
    for launcher, env in (("none", {}), ("srun", place(0))):
        (folder / "ranks").mkdir(exist_ok=True)
        done = subprocess.run(
            [shell[0], _rank_sh(folder), launcher, folder / "ranks", folder, "0", "5", *words, script, "a b"],
            env={"PATH": shell[1], "SLURMD_NODENAME": "node-0", **env},
            capture_output=True,
            timeout=150,
        )
        assert done.returncode == 0, done
        assert b"/x|/nonexistent/env|1|/a b|a b\n" in done.stdout


def test_what_outlives_the_program_does_not_keep_the_job(shell: tuple[str, str], folder: Path, write: Write) -> None:
    script = write("x.sh", "sleep 300 & echo $!")
    (folder / "ranks").mkdir()
    with open(folder / "log", "wb") as log:  # not a pipe: that one the sleep would hold, too
        done = subprocess.run(
            [shell[0], _rank_sh(folder), "srun", folder / "ranks", folder, "0", "0", script],
            env={"PATH": shell[1], "SLURMD_NODENAME": "node-0", **place(0)},
            stdout=log,
            timeout=150,
        )
    assert done.returncode == 0
    os.kill(int((folder / "log").read_text().removeprefix("[node-0:0] ")), signal.SIGKILL)  # it is still there


def test_a_missing_work_dir_is_named(shell: tuple[str, str], folder: Path) -> None:
    (folder / "ranks").mkdir()
    done = subprocess.run(
        [shell[0], _rank_sh(folder), "none", folder / "ranks", "/gone", "0", "0", "x"],
        env={"PATH": shell[1], "SLURMD_NODENAME": "node-1"},
        capture_output=True,
    )
    assert done.returncode == 78
    assert b"/gone" in done.stdout and b"node-1" in done.stdout
    assert (folder / "ranks" / "problem").read_text().startswith("workdir\nwork dir /gone")


def test_lines_of_ranks_never_mix(make_job: MakeJob, write: Write) -> None:
    text = """
big=$(printf '%3000s' '' | tr ' ' x)
n=0
while [ $n -lt 3000 ]; do
  size=$(( (n * 37) % 300 )); [ $((n % 100)) != 0 ] || size=3000
  echo "$RANK $n ${big:0:size} end"
  n=$((n + 1))
done
"""
    job = make_job(
        [write("x.sh", text)],
        language="shell",
        scheduler="slurm",
        launcher="srun",
        ntasks_per_node=2,
        master_port=24742,
    )
    assert job.run() == 0
    for rank in (0, 1):
        check_lines(job.log, f"[node-0:{rank}] ", rank, (job.ranks / f"rank-{rank}.log").read_text())


def _rank_sh(folder: Path) -> Path:
    (folder / "rank.sh").write_bytes(files("shell", "none")["rank.sh"])
    return folder / "rank.sh"
