"""One rank of a Python program: its words, its lines, its log, how it failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.conftest import BatchJob, until

MakeJob = Callable[..., BatchJob]
Write = Callable[..., Path]
#: Words that a shell, an option parser or a format string would like to eat.
WORDS = [
    "a b",
    "'",
    '"',
    "$HOME",
    "*",
    "é",
    "",
    "--x=1;2",
    "a\nb",
    "; touch p",
    "-e",
    "%d",
    "\\",
    "--",
    "--launcher",
    "\r\n",
]
VALUES = {
    f"V{n}": value
    for n, value in enumerate(
        ["a b", "$1", "`date`", "x,y", '"', "'", "\\", "é", "", "two\nlines", "end ", "\udcff", "a\r\n"]
    )
} | {"http_proxy": "x", "Mixed_Case": "y"}
TELL = """
import json, os, sys
with open(os.environ["OUT"] + os.environ.get("RANK", ""), "w") as file:
    json.dump([sys.argv, dict(os.environ)], file)
"""


def two_ranks(make_job: MakeJob, program: list[str | Path], **values: object) -> BatchJob:
    return make_job(program, scheduler="slurm", launcher="srun", ntasks_per_node=2, master_port=24742, **values)


def test_arguments_and_environment_arrive_as_given(make_job: MakeJob, write: Write, folder: Path) -> None:
    script = write("tell me.py", TELL)
    job = make_job([script, *WORDS])
    assert job.run(OUT=str(folder / "told"), **VALUES) == 0
    argv, env = json.loads((folder / "told").read_text())
    assert argv == [str(script), *WORDS]
    assert {name: env[name] for name in VALUES} == VALUES
    assert not (folder / "p").exists()


def test_the_oldest_python_that_is_promised(make_job: MakeJob, write: Write) -> None:
    found = [str(path) for path in Path.home().glob(".pyenv/versions/3.8.*/bin/python")]
    python = found[0] if found else shutil.which("python3.8")
    if not python:
        pytest.skip("there is no Python 3.8")
    job = two_ranks(make_job, [write("x.py", "import sys; print(sys.version_info[:2]); {}['x']")], python=python)
    assert job.run() == 1
    assert "[node-0:1] (3, 8)\n" in job.log
    assert job.outcome.failure and job.outcome.failure.exception == "KeyError: 'x'"


def test_another_interpreter_runs_the_program(make_job: MakeJob, write: Write) -> None:
    job = make_job(
        [write("x.py", "import sys; print(sys.flags.dont_write_bytecode)")], interpreter=[sys.executable, "-B"]
    )
    assert job.run() == 0
    assert job.log == "1\n"


def test_modules_of_the_user_do_not_stand_in_for_the_runners(make_job: MakeJob, write: Write, folder: Path) -> None:
    write("signal.py", "raise SystemExit('mine')")
    write("argparse.py", "raise SystemExit('mine')")
    write("failure.py", "raise SystemExit('mine')")
    job = make_job([write("x.py", "print('fine')")], pythonpath=[str(folder)])
    assert job.run() == 0
    assert job.log == "fine\n"


def test_one_rank_has_its_bytes_untouched(make_job: MakeJob, write: Write) -> None:
    sent = b"a\rb\r\n\xff\0no end"
    job = make_job([write("x.py", f"import sys; sys.stdout.buffer.write({sent!r})")])
    assert job.run() == 0
    assert job.log_path.read_bytes() == sent
    assert (job.ranks / "rank-0.log").read_bytes() == sent


def test_a_traceback_names_what_failed(make_job: MakeJob, write: Write) -> None:
    text = "try:\n    {}['x']\nexcept KeyError as error:\n    raise RuntimeError('no x') from error\n"
    job = make_job([write("x.py", text)])
    assert job.run() == 1
    failure = job.outcome.failure
    assert failure and (failure.rank, failure.exit_code, failure.signal) == (0, 1, None)
    assert failure.exception == "RuntimeError: no x"
    assert failure.traceback.startswith("Traceback (most recent call last):") and "KeyError: 'x'" in failure.traceback
    assert failure.followed == 0


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        ("raise ValueError('first\\nsecond')", "ValueError: first"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("x = = 1", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", ""),
        ("print('Error in my log'); import os; os._exit(3)", ""),
        (
            "print('[rank1]: Traceback (most recent call last):\\n[rank1]:   x\\n[rank1]: E: y'); exit(1)",
            "E: y",
        ),
        pytest.param(
            "raise ExceptionGroup('both', [KeyError(1), TypeError(2)])",
            "ExceptionGroup: both (2 sub-exceptions)",
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="no exception groups"),
        ),
    ],
)
def test_the_exception_is_the_one_that_ended_it(make_job: MakeJob, write: Write, text: str, exception: str) -> None:
    job = make_job([write("x.py", text)])
    assert job.run() != 0
    assert job.outcome.failure and job.outcome.failure.exception == exception


def test_a_signal_is_named(make_job: MakeJob, write: Write) -> None:
    job = make_job([write("x.py", "import os; os.kill(os.getpid(), 9)")])
    assert job.run() == 137
    assert job.outcome.failure and job.outcome.failure.signal == "SIGKILL"
    assert "signal SIGKILL" in str(job.outcome.failure)


def test_a_signal_that_reaches_the_program_first_is_no_failure_of_its_own(make_job: MakeJob, write: Write) -> None:
    text = "import os, time; print(os.getppid(), os.getpid(), flush=True); time.sleep(60)"
    job = make_job([write("x.py", text)])
    process = job.start()
    runner, program = map(int, until(lambda: job.log.endswith("\n") and job.log.split()))
    os.kill(program, signal.SIGTERM)
    os.kill(runner, signal.SIGTERM)
    assert process.wait(60) == 143
    assert job.outcome.failure is None


def test_a_signal_to_the_program_alone_is_a_failure(make_job: MakeJob, write: Write) -> None:
    job = make_job([write("x.py", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")])
    assert job.run() == 143
    assert job.outcome.failure and job.outcome.failure.signal == "SIGTERM"


def test_a_program_that_cannot_start_is_named(make_job: MakeJob, write: Write) -> None:
    job = make_job([write("x.py", "")], interpreter=["/no/such python"])
    assert job.run() == 127
    assert "/no/such python" in job.outcome.reason and job.outcome.cause == "program"


def test_a_work_dir_that_one_node_lacks_is_named(make_job: MakeJob) -> None:
    job = make_job([])
    job.ranks.mkdir()
    rank: list[str | Path] = [
        sys.executable,
        "-IS",
        job.dir / "runner" / "rank.py",
        "--launcher",
        "none",
        "--ranks",
        job.ranks,
    ]
    env = {"SLURMD_NODENAME": "node-1"}
    done = subprocess.run([*rank, "--work-dir", "/gone", "--", "true"], env=env, capture_output=True)
    assert done.returncode == 78
    assert b"/gone" in done.stdout and b"node-1" in done.stdout
    assert (job.ranks / "problem").read_text().startswith("workdir\nwork dir /gone is missing")


def test_what_outlives_the_program_does_not_keep_the_job(make_job: MakeJob, write: Write) -> None:
    text = "import subprocess; print(subprocess.Popen(['sleep', '300']).pid)"
    job = make_job([write("x.py", text)])
    assert job.run() == 0
    os.kill(int(job.log), signal.SIGKILL)  # it is still there


def test_the_program_dies_with_its_runner(make_job: MakeJob, write: Write, folder: Path) -> None:
    text = "import os, time; open('pids', 'w').write(f'{os.getppid()} {os.getpid()} '); time.sleep(60)"
    job = make_job([write("x.py", text)])
    process = job.start()
    pids = folder / "pids"
    runner, program = until(lambda: pids.exists() and pids.read_text().endswith(" ") and pids.read_text().split())
    os.kill(int(runner), signal.SIGKILL)
    assert process.wait(60) == 137
    until(lambda: not os.path.exists(f"/proc/{program}"))


# -- more than one rank -------------------------------------------------------------------------------------------

SHOUT = """
import os, sys, threading
rank = os.environ["RANK"]
for n in range(3000):
    size = (n * 37) % 300 if n % 100 else 3000
    os.write(1 + n % 2, f"{rank} {n} {'x' * size} end\\n".encode())
"""


def check_lines(text: str, label: str, rank: int, whole: str) -> None:
    """All lines of a rank are there, whole; those that are too long in pieces."""
    mine = [line[len(label) :] for line in text.splitlines() if line.startswith(label)]
    assert "".join(mine) == whole.replace("\n", "")
    short = [line for line in whole.splitlines() if len(line) < 900]
    assert [line for line in mine if len(line) < 900 and re.match(r"\d \d+ x* end$", line)] == short
    assert len(short) == 2970 and all(line.startswith(f"{rank} ") for line in short)


def test_lines_of_ranks_never_mix(make_job: MakeJob, write: Write) -> None:
    job = two_ranks(make_job, [write("x.py", SHOUT)])
    reader, writer = os.pipe()
    with open(job.log_path, "wb") as log:
        copy = subprocess.Popen(["cat"], stdin=reader, stdout=log)
    os.close(reader)
    done = subprocess.run(["bash", job.dir / "job.sh"], env=job.env, stdout=writer, stderr=writer)
    os.close(writer)
    copy.wait(60)
    assert done.returncode == 0
    assert max(map(len, job.log.splitlines())) < 1024  # longer ones srun would cut
    for rank in (0, 1):
        check_lines(job.log, f"[node-0:{rank}] ", rank, (job.ranks / f"rank-{rank}.log").read_text())
    assert all(line.startswith(("[node-0:0] ", "[node-0:1] ")) for line in job.log.splitlines())


def test_a_character_is_never_cut(make_job: MakeJob, write: Write) -> None:
    job = two_ranks(make_job, [write("x.py", "print('x' + 'é' * 2000)")])
    assert job.run() == 0
    assert "\ufffd" not in job.log_path.read_bytes().decode("utf-8", "replace")


def test_a_progress_bar_shows_its_last_state(make_job: MakeJob, write: Write, folder: Path) -> None:
    text = """
import os, sys, time
if os.environ["RANK"] == "1": sys.exit()
for n in range(3): sys.stdout.write(f"\\r{n} of 3"); sys.stdout.flush(); time.sleep(0.05)
sys.stdout.write("\\n"); sys.stdout.write("Continue? "); sys.stdout.flush()
while not os.path.exists("go"): time.sleep(0.05)
print("yes")
"""
    job = two_ranks(make_job, [write("x.py", text)])
    process = job.start()
    until(lambda: "Continue? " in job.log)
    (folder / "go").touch()
    assert process.wait(60) == 0
    shown = job.log.replace("[node-0:0] ", "").splitlines()
    assert shown[-3:] == ["2 of 3", "Continue? ", "yes"]
    assert set(shown[:-3]) <= {"0 of 3", "1 of 3"}  # a machine that halts for a second shows more
    assert (job.ranks / "rank-0.log").read_bytes() == b"\r0 of 3\r1 of 3\r2 of 3\nContinue? yes\n"


def test_the_first_failure_of_all_decides(make_job: MakeJob, write: Write) -> None:
    text = """
import os, signal, sys, time
if os.environ["RANK"] == "1":
    {}["x"]
ranks = os.environ["NEMO_LAUNCH_TASK_DIR"] + "/ranks-77-0"
while not os.path.exists(ranks + "/first-failure.json"): time.sleep(0.05)
sys.exit(9)
"""
    job = two_ranks(make_job, [write("x.py", text)])
    assert job.run() == 1
    failure = job.outcome.failure
    assert failure and (failure.rank, failure.node, failure.exception, failure.followed) == (
        1,
        "node-0",
        "KeyError: 'x'",
        1,
    )
    assert "nemo_launch: rank 1 on node-0 failed first: exit code 1, KeyError: 'x'\n" in job.log
    assert str(failure) == "rank 1 on node-0 failed first: exit 1, KeyError: 'x'; 1 other followed"


def test_ranks_that_ended_well_did_not_follow(make_job: MakeJob, write: Write) -> None:
    text = "import os, sys, time; time.sleep(0.4 * int(os.environ['RANK'])); sys.exit(4 * int(os.environ['RANK']))"
    job = two_ranks(make_job, [write("x.py", text)])
    assert job.run() == 4
    assert job.outcome.failure and job.outcome.failure.followed == 0
