"""Programs under the real torchrun, on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.conftest import BatchJob, until
from tests.runner.test_rank import SHOUT, TELL, VALUES, WORDS, check_lines

pytest.importorskip("torch")
MakeJob = Callable[..., BatchJob]
Write = Callable[..., Path]


def torchrun(make_job: MakeJob, program: list[str | Path], **values: object) -> BatchJob:
    return make_job(program, **{"launcher": "torchrun", "ntasks_per_node": 2, **values})


def test_everything_arrives_and_no_line_mixes(make_job: MakeJob, write: Write, folder: Path) -> None:
    script = write("x.py", TELL + SHOUT)
    job = torchrun(make_job, [script, *WORDS])
    assert job.run(OUT=str(folder / "told"), **VALUES) == 0
    for rank in (0, 1):
        argv, env = json.loads((folder / f"told{rank}").read_text())
        assert argv == [str(script), *WORDS]
        assert {name: env[name] for name in VALUES} == VALUES
        assert (env["WORLD_SIZE"], env["LOCAL_RANK"]) == ("2", str(rank))
        node = os.uname().nodename.split(".")[0]
        check_lines(job.log, f"[{node}:{rank}] ", rank, (job.ranks / f"rank-{rank}.log").read_text())
    assert {path.name for path in job.ranks.iterdir()} == {"rank-0.log", "rank-1.log", "rank-0.ok", "rank-1.ok"}


def test_the_code_and_exception_of_the_first_failing_rank_arrive(make_job: MakeJob, write: Write) -> None:
    text = """
import os, sys, time, traceback
if os.environ["RANK"] == "0":
    open("up", "w").close()
    time.sleep(600)
while not os.path.exists("up"): time.sleep(0.05)
try: {}["x"]
except KeyError: traceback.print_exc(); sys.exit(7)
"""
    job = torchrun(make_job, [write("x.py", text)])
    assert job.run() == 7
    failure = job.outcome.failure
    assert failure and (failure.rank, failure.exit_code, failure.exception, failure.followed) == (
        1,
        7,
        "KeyError: 'x'",
        1,
    )
    assert json.loads((job.ranks / "rank-0.json").read_text())["induced"] is True
    assert "ChildFailedError" not in job.log  # torchrun's own traceback says nothing


def test_term_ends_all_ranks_once(make_job: MakeJob, write: Write) -> None:
    text = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("begun", flush=True)
while not told: time.sleep(0.05)
time.sleep(0.5); print("told", len(told))
"""
    job = torchrun(make_job, [write("x.py", text)])
    process = job.start()
    until(lambda: job.log.count("begun") == 2)
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert job.log.count("told 1\n") == 2
    assert (job.outcome.cause, job.outcome.signal, job.outcome.failure) == ("signal", "SIGTERM", None)


@pytest.mark.parametrize("victim", ["program", "runner"])
def test_a_rank_that_is_killed_is_named(make_job: MakeJob, write: Write, folder: Path, victim: str) -> None:
    pid = "os.getpid()" if victim == "program" else "os.getppid()"
    text = f"import os, time\nif os.environ['RANK'] == '1': os.kill({pid}, 9)\ntime.sleep(60)"
    job = torchrun(make_job, [write("x.py", text)])
    assert job.run() == 137
    assert job.outcome.failure and (job.outcome.failure.rank, job.outcome.failure.signal) == (1, "SIGKILL")


def test_the_margin_signal_does_not_kill_torchrun_and_is_not_ignored_by_ranks(make_job: MakeJob, write: Write) -> None:
    text = """
import os, signal, sys, time
assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
stat = open("/proc/%d/stat" % os.getppid()).read()
torchrun = int(stat.rsplit(")", 1)[1].split()[1])
if os.environ["RANK"] == "0": os.kill(torchrun, signal.SIGUSR2)
time.sleep(1); print("alive")
"""
    job = torchrun(make_job, [write("x.py", text)], signal="USR2")
    assert job.run() == 0
    assert job.log.count("alive") == 2


def test_a_program_that_cannot_start_is_named(make_job: MakeJob, write: Write) -> None:
    job = torchrun(make_job, [write("x.py", "")], interpreter=["/no/such python"])
    assert job.run() == 127
    assert "/no/such python" in job.outcome.reason and job.outcome.cause == "program"


def test_a_python_without_torch_is_named(make_job: MakeJob, write: Write, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    job = torchrun(make_job, [write("x.py", "")], python=str(tmp_path / "bare" / "bin" / "python"))
    assert job.run() == 78
    assert job.outcome.cause == "torch"
    for word in (str(tmp_path / "bare"), os.uname().nodename.split(".")[0], "launcher none"):
        assert word in job.outcome.reason
    assert job.log.count(job.outcome.reason) == 1 and "Traceback" not in job.log


def test_a_port_that_is_taken_between_lease_and_start_is_tried_once_more(
    make_job: MakeJob, write: Write, folder: Path
) -> None:
    text = 'import os; print(os.environ["MASTER_PORT"], os.environ["WORLD_SIZE"])'
    # The first of two nodes; the second would wait for ever, so torchrun is told of one.
    job = torchrun(make_job, [write("x.py", text)], scheduler="slurm", nodes=2, ntasks_per_node=1)
    with socket.socket() as thief:
        thief.bind(("0.0.0.0", 0))  # bound and not listening: it cannot be seen
        port = thief.getsockname()[1]
        script = job.dir / "job.sh"
        script.write_text(script.read_text().replace("nl_master_port=13742", f"nl_master_port={port}"))
        (folder / "bin" / "srun").write_text(
            '#!/bin/bash\nwhile [[ $1 = --* ]]; do shift; done\nargs=("$@")\n'
            f'args[3]=1\nSLURM_NODEID=0 exec {sys.executable} "${{args[@]:1}}"\n'
        )
        assert job.run(MASTER_ADDR="localhost") == 0
    (used,) = re.findall(rf"port {port} was taken on node-0 meanwhile: starting again with (\d+)", job.log)
    assert int(used) > port
    assert job.log.rstrip().endswith(f"{used} 1")
    assert job.outcome.reason == ""
