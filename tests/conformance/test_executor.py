"""What every executor promises, tried through the protocol alone: plan, submit, poll, cancel, log_sources."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemo_launch.errors import LaunchError
from nemo_launch.executors.base import Recovery, State
from tests.conformance.site import DUMP, DUMP_SCRIPT, Run, Site

TRICKY = ["a b", "'", '"', "$HOME", "*", "é", "", "--x=1;2", "a\nb", "; touch pwned", "-e", "%d", "\\", "`date`"]
VALUES = ["a b", "$1", "`date`", "x,y", '"', "'", "\\", "é", "", "two\nlines", "trailing ", "x=y", "%j", "\udcff"]


def payload_saw(run: Run, path: Path) -> tuple[list[str], dict[str, str]]:
    seen = json.loads(run.until_file(path))

    def plain(text: str) -> str:
        return os.fsdecode(bytes.fromhex(text))

    return [plain(word) for word in seen["argv"]], {plain(k): plain(v) for k, v in seen["env"].items()}


@pytest.mark.parametrize("python", [True, False], ids=["python", "script"])
def test_arguments_arrive_as_they_were(site: Site, python: bool) -> None:
    out = site.folder / "seen.json"
    run = site.launch(
        site.task("dump", DUMP if python else DUMP_SCRIPT, str(out), *TRICKY, python=python), launcher="none"
    )
    argv, _ = payload_saw(run, out)
    assert argv == TRICKY
    assert run.wait()["dump"].state is State.SUCCEEDED
    assert not list(site.folder.rglob("pwned"))


@pytest.mark.parametrize("python", [True, False], ids=["python", "script"])
def test_environment_arrives_byte_for_byte(site: Site, python: bool) -> None:
    out = site.folder / "seen.json"
    env = {f"V{i}": value for i, value in enumerate(VALUES)} | {"http_proxy": "x", "Mixed_Case": "y"}
    run = site.launch(
        site.task("dump", DUMP if python else DUMP_SCRIPT, str(out), python=python, env=env), launcher="none"
    )
    _, seen = payload_saw(run, out)
    assert {name: seen.get(name) for name in env} == env
    run.wait()


def test_arguments_and_environment_pass_through_torchrun(site: Site) -> None:
    out = site.folder / "seen.json"
    env = {f"V{i}": value for i, value in enumerate(VALUES)}
    run = site.launch(site.task("dump", DUMP, str(out), *TRICKY, python=True, env=env), launcher="torchrun")
    argv, seen = payload_saw(run, out)
    assert argv == TRICKY
    assert {name: seen.get(name) for name in env} == env
    assert (seen["RANK"], seen["WORLD_SIZE"]) == ("0", "1")
    run.wait()


def test_the_launchers_own_environment_stays_outside(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_MEM_PER_CPU", "SLURM_CPU_BIND", "SBATCH_GRES_FLAGS", "NOT_ASKED_FOR"):
        monkeypatch.setenv(name, "surrounding")
    monkeypatch.setenv("ASKED_FOR", "yes")
    out = site.folder / "seen.json"
    run = site.launch(site.task("dump", DUMP, str(out), python=True), launcher="none", passthrough=["ASKED_FOR"])
    _, seen = payload_saw(run, out)
    assert "surrounding" not in seen.values()
    assert seen["ASKED_FOR"] == "yes"
    run.wait()


def test_a_secret_reaches_the_job_and_nothing_else(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    value = "s3cr3t-$&'"
    monkeypatch.setenv("MY_TOKEN", value)
    go, length = site.folder / "go", site.folder / "length"
    text = f'#!/bin/sh\necho ${{#MY_TOKEN}} > "{length.name}"\nwhile [ ! -e "{go.name}" ]; do sleep 0.1; done\n'
    run = site.prepare(site.task("secret", text, secrets=("MY_TOKEN",)))
    assert value not in repr(run.plans) and value not in run.plans[0].script
    run.submit()
    assert run.until_file(length) == f"{len(value)}\n"
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert value.encode() not in process.read_bytes(), process
        except OSError:
            continue  # it has ended
    found = subprocess.run(["grep", "-rlaF", value, str(site.folder)], capture_output=True, text=True).stdout
    assert found == ""
    assert value not in repr(run.poll()) + repr(run.jobs()) + repr(run.executor)
    go.touch()
    assert run.wait()["secret"].state is State.SUCCEEDED
    assert value not in run.log("secret")
    found = subprocess.run(["grep", "-rlaF", value, str(site.folder)], capture_output=True, text=True).stdout
    assert found == ""


def test_a_good_end(site: Site) -> None:
    before = time.time()
    run = site.launch(site.task("good", "#!/bin/sh\necho out; echo err >&2\n"))
    seen = run.wait()["good"]
    assert (seen.state, seen.exit_code, seen.failure, seen.skipped) == (State.SUCCEEDED, 0, None, False)
    assert seen.started is not None and seen.ended is not None and seen.submitted is not None
    assert before - 1 <= seen.submitted <= time.time()
    assert before - 1 <= seen.started <= seen.ended <= time.time() + 1
    assert seen.nodes
    assert {"out", "err"} <= set(run.log("good").split())
    if run.executor.kind == "local":
        assert seen.nodes == socket.gethostname()


@pytest.mark.parametrize("code", [1, 7, 143])
def test_the_exit_code_is_the_programs(site: Site, code: int) -> None:
    run = site.launch(site.task("bad", f"#!/bin/sh\nexit {code}\n"))
    seen = run.wait()["bad"]
    assert (seen.state, seen.exit_code) == (State.FAILED, code)
    assert code > 128 or str(code) in seen.reason  # else it is read as a signal


def test_an_exception_is_named(site: Site) -> None:
    text = "import sys\nprint('before', flush=True)\nraise KeyError('weights')\n"
    run = site.launch(site.task("raise", text, python=True), launcher="none")
    seen = run.wait()["raise"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 1)
    assert seen.failure is not None and seen.failure.rank == 0
    assert "KeyError" in seen.failure.exception and "weights" in seen.failure.exception
    assert "KeyError: 'weights'" in run.log("raise")


def test_the_rank_that_failed_first_is_named(site: Site) -> None:
    text = """
import os, sys, time
if os.environ["RANK"] == "1":
    raise ValueError("bad shard")
time.sleep(600)
"""
    run = site.launch(site.task("ranks", text, python=True), launcher="torchrun", ntasks_per_node=3)
    seen = run.wait(120)["ranks"]
    assert (seen.state, seen.exit_code) == (State.FAILED, 1)
    assert seen.failure is not None
    assert (seen.failure.rank, seen.failure.followed) == (1, 2)
    assert "ValueError: bad shard" in seen.failure.exception
    assert seen.failure.node
    logs = run.executor.log_sources(*run.jobs())
    assert [log.rank for log in logs] == [None, 0, 1, 2]
    assert b"bad shard" in (run.executor.transport.read(logs[2].path) or b"")


def test_dependants_run_in_order(site: Site) -> None:
    text = "#!/bin/sh\nsleep 0.2; echo $1 >> order\n"
    run = site.launch(
        site.task("a", text, "a"), site.task("b", text, "b", after=["a"]), site.task("c", text, "c", after=["a", "b"])
    )
    seen = run.wait()
    assert [o.state for o in seen.values()] == [State.SUCCEEDED] * 3
    assert (site.folder / "order").read_text().split() == ["a", "b", "c"]


def test_dependants_of_a_failure_are_skipped(site: Site) -> None:
    ran = "#!/bin/sh\ntouch ran\n"
    run = site.launch(
        site.task("bad", "#!/bin/sh\nexit 7\n"),
        site.task("next", ran, after=["bad"]),
        site.task("last", ran, after=["next"]),
        site.task("free", "#!/bin/sh\nexit 0\n"),
    )
    seen = run.wait()
    assert (seen["next"].state, seen["next"].skipped) == (State.CANCELLED, True)
    assert (seen["last"].state, seen["last"].skipped) == (State.CANCELLED, True)
    assert "bad" in seen["next"].reason
    assert seen["free"].state is State.SUCCEEDED
    assert not (site.folder / "ran").exists()


@pytest.mark.parametrize("code", [0, 7])
def test_a_predecessor_may_have_ended_long_ago(site: Site, code: int) -> None:
    first = site.task("first", f"#!/bin/sh\nexit {code}\n")
    run = site.prepare(first, site.task("late", "#!/bin/sh\ntouch ran\n", after=["first"]))
    run.executor.submit(run.plans[:1], run.book)
    run.until(lambda seen: seen["first"].state.final)
    try:
        run.executor.submit(run.plans[1:], run.book)
    except LaunchError:  # to refuse is as good as to skip, and nothing stays pending for ever
        assert code != 0
    else:
        seen = run.wait()["late"]
        assert (seen.state, seen.skipped) == ((State.CANCELLED, True) if code else (State.SUCCEEDED, False))
    assert (site.folder / "ran").exists() == (code == 0)


def test_cancel_ends_what_runs_and_what_waits(site: Site) -> None:
    run = site.launch(
        site.task("long", "#!/bin/sh\necho here > up\nexec sleep 100\n"),
        site.task("next", "#!/bin/sh\ntouch ran\n", after=["long"]),
    )
    run.until_file(site.folder / "up")
    seen = run.cancel()
    assert {name: o.state for name, o in seen.items()} == {"long": State.CANCELLED, "next": State.CANCELLED}
    assert run.poll()["long"].state is State.CANCELLED
    assert run.cancel()["long"].state is State.CANCELLED  # again, without harm
    assert not (site.folder / "ran").exists()


def test_what_was_cancelled_while_it_waited_was_not_skipped(site: Site) -> None:
    run = site.launch(
        site.task("first", "#!/bin/sh\necho here > up\nwhile [ ! -e go ]; do sleep 0.1; done\n"),
        site.task("next", "#!/bin/sh\ntouch ran\n", after=["first"]),
    )
    run.until_file(site.folder / "up")
    run.cancel("next")
    (site.folder / "go").touch()
    seen = run.wait()
    assert seen["first"].state is State.SUCCEEDED
    assert (seen["next"].state, seen["next"].skipped) == (State.CANCELLED, False)
    assert seen["next"].reason == "cancelled before it started"
    assert not (site.folder / "ran").exists()


def test_cancel_right_after_submission(site: Site) -> None:
    run = site.launch(site.task("long", "#!/bin/sh\nsleep 60\ntouch ran\n"))
    run.cancel()
    assert run.wait()["long"].state is State.CANCELLED
    time.sleep(0.5)
    assert not (site.folder / "ran").exists()


def test_cancel_keeps_the_result_of_what_has_ended(site: Site) -> None:
    run = site.launch(site.task("good", "#!/bin/sh\n"), site.task("bad", "#!/bin/sh\nexit 3\n"))
    before = run.wait()
    assert run.cancel() == before
    assert run.poll() == before


def test_cancel_leaves_the_others_alone(site: Site) -> None:
    text = "#!/bin/sh\necho here > up-$1\nwhile [ ! -e go ]; do sleep 0.1; done\n"
    run = site.launch(site.task("one", text, "1"), site.task("two", text, "2"))
    run.until_file(site.folder / "up-1")
    run.until_file(site.folder / "up-2")
    assert run.cancel("one")["one"].state is State.CANCELLED
    assert run.poll()["two"].state is State.RUNNING
    (site.folder / "go").touch()
    assert run.wait()["two"].state is State.SUCCEEDED


def test_a_lost_id_is_found_again(site: Site) -> None:
    run = site.launch(site.task("lost", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n"))
    (job,) = run.jobs()
    os.unlink(job.paths.handle)
    (blind,) = run.jobs()
    assert blind.handle is None
    assert run.executor.recover([blind]) == {job.key: job.handle}
    run.book.submitted(run.plans[0], job.handle)  # type: ignore[arg-type]
    (site.folder / "go").touch()
    run.wait()


def test_an_intent_that_came_to_nothing_is_gone(site: Site) -> None:
    run = site.prepare(site.task("never", "#!/bin/sh\n"))
    gone = subprocess.Popen(["true"])
    gone.wait()
    run.book.intend(run.plans[0])
    intent = json.loads(Path(run.where("never").intent).read_text())
    Path(run.where("never").intent).write_text(json.dumps({**intent, "pid": gone.pid, "time": time.time() - 3600}))
    (job,) = run.jobs()
    assert run.executor.recover([job]) == {job.key: Recovery.GONE}


def test_a_plan_has_no_effect_and_repeats(site: Site) -> None:
    task = site.task("plan", "#!/bin/sh\n")
    run = site.prepare(task)
    before = sorted(site.folder.rglob("*"))
    again = run.executor.plan(task, run.where("plan"))
    assert again == run.plans[0]
    assert sorted(site.folder.rglob("*")) == before
    done = subprocess.run(["bash", "-n"], input=again.script.encode("utf-8", "surrogateescape"), capture_output=True)
    assert done.returncode == 0, done.stderr


LEAVES = "import subprocess, sys\nsubprocess.Popen(['sleep', '300'])\nsys.exit(9)\n"
#: Takes the request to end well.
SAVES = """#!/bin/bash
trap 'echo saved > saved; exit 0' TERM
echo up > up
while :; do sleep 0.1; done
"""


def test_a_cancelled_run_that_ends_well_stays_cancelled(site: Site) -> None:
    run = site.launch(site.task("a", SAVES), site.task("b", "#!/bin/sh\n", after=["a"]))
    run.until_file(site.folder / "up")
    assert run.cancel("a")["a"].state is State.CANCELLED
    run.until_file(site.folder / "saved")
    seen = run.wait()
    assert {name: o.state for name, o in seen.items()} == {"a": State.CANCELLED, "b": State.CANCELLED}
    time.sleep(2)
    assert {name: o.state for name, o in run.poll().items()} == {"a": State.CANCELLED, "b": State.CANCELLED}


def test_a_run_that_had_ended_before_it_was_cancelled_keeps_its_result(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\nexit 0\n"))
    run.wait()
    assert run.cancel()["a"].state is State.SUCCEEDED


@pytest.mark.parametrize("python", [False, True])
def test_variables_that_change_tools_reach_the_program_and_break_nothing(site: Site, python: bool) -> None:
    given = {"PATH": "/nowhere", "BASH_ENV": "/nonexistent/env", "POSIXLY_CORRECT": "1", "LD_LIBRARY_PATH": "/a b"}
    text = f"#!/bin/bash\nexec '{sys.executable}' -c '{DUMP}' \"$1\"\n"
    out = site.folder / "out"
    task = site.task("a", DUMP, str(out), python=True) if python else site.task("a", text, str(out))
    slurm = "grace" not in site.defaults
    setup = {"setup": f'echo "$PATH" > {shlex.quote(str(out))}-setup'} if slurm else {}
    run = site.launch(task, env_vars=given, launcher="none", **setup)
    assert run.wait()["a"].state is State.SUCCEEDED, run.logs()
    env = json.loads(out.read_text())["env"]
    assert {name: bytes.fromhex(env[name.encode().hex()]).decode() for name in given} == given
    if slurm:
        assert (site.folder / "out-setup").read_text() == "/nowhere\n"


def test_what_outlives_the_program_does_not_keep_the_run(site: Site) -> None:
    run = site.launch(site.task("a", "#!/bin/sh\nsleep 300 &\nexit 9\n"), site.task("b", LEAVES, python=True))
    seen = run.wait()
    assert [seen[name].exit_code for name in ("a", "b")] == [9, 9]
