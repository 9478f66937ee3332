"""Asking about what was launched."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import RUN_PY, Cli


@pytest.fixture
def ran(cli: Cli) -> Cli:
    """One experiment that failed, one that runs."""
    cli("-s", cli.script("bad.sh", "echo 1; echo 2; echo 3; exit 5\n"), "--wait")
    cli("-s", cli.script("long.sh", "echo started; sleep 60\n"), "--detach")
    return cli


def test_status_answers_whatever_the_answer(ran: Cli) -> None:
    done = ran("status", "bad")
    assert done.code == 0
    assert "- Exit code: 5\n" in done.out
    assert ran("status", "bad", "--wait").code == 1


def test_status_without_a_name_is_about_the_newest(ran: Cli) -> None:
    assert ran("status").out.startswith("Experiment Status for long_")


def test_status_of_several(ran: Cli) -> None:
    assert ran("status", "bad", "long").out.count("Experiment Status for ") == 2
    document = json.loads(ran("status", "bad", "long", "--json").out)
    assert [entry["experiment"]["title"] for entry in document["experiments"]] == ["bad", "long"]


def test_logs(ran: Cli) -> None:
    assert ran("logs", "bad").out == "1\n2\n3\n"
    assert ran("logs", "bad", "0", "--lines", "1").out == "3\n"
    assert ran("logs", "bad", "-f").code == 1


def test_logs_of_an_attempt(ran: Cli) -> None:
    for which in ("1", "all"):
        assert ran("logs", "bad", "--attempt", which).out == "1\n2\n3\n"
    for words, says in ([], "bad has had 1. They count from 1."), (["-f"], "following goes on"):
        done = ran("logs", "bad", "--attempt", "2", *words)
        assert (done.code, done.out) == (2, "")
        assert "run.py: error: --attempt: " in done.err and says in done.err


def test_logs_of_a_rank_need_no_node(ran: Cli) -> None:
    done = ran("logs", "--rank", "0", "--node", "here")
    assert done.code == 2
    assert "--rank, --node" in done.err


@pytest.mark.parametrize(
    "words", [["--rank", "5"], ["--node", "nope"], ["-f", "--rank", "5"], ["-f", "--node", "nope"]]
)
def test_logs_of_a_rank_or_node_that_there_is_not(ran: Cli, words: list[str]) -> None:
    done = ran("logs", "bad", *words)
    assert (done.code, done.out) == (2, "")
    assert f"run.py: error: {words[-2]}: " in done.err


@pytest.mark.parametrize("locale", ["C.UTF-8", "C", "en_US.ISO-8859-1"])
def test_bytes_of_a_log_pass_as_they_are(cli: Cli, locale: str) -> None:
    cli.script(
        "a.py", "import os, random\nos.write(1, random.Random(1).randbytes(100_000).replace(b'\\0', b'') + b'\\n')"
    )
    env = {**cli.env, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    def out(*words: str) -> bytes:
        return subprocess.run([sys.executable, RUN_PY, *words], cwd=cli.work, env=env, capture_output=True).stdout

    followed = out("-s", "a.py", "--launcher", "none")
    [log] = cli.home.glob("experiments/a/*/a/*.log")
    data = log.read_bytes()
    assert len(data) > 99_000
    assert out("logs", "a") == data
    assert followed.startswith(data)


def test_list(ran: Cli) -> None:
    header, bad, long = ran("list").out.splitlines()
    assert header.split() == ["EXPERIMENT", "STARTED", "EXECUTOR", "STATES"]
    assert (bad.split()[0][:4], bad.split()[-1]) == ("bad_", "FAILED")
    assert (long.split()[0][:5], long.split()[-1]) == ("long_", "RUNNING")
    assert len(ran("list", "bad").out.splitlines()) == 2
    assert "1 older" in ran("list", "--limit", "1").err
    assert len(json.loads(ran("list", "--json").out)["experiments"]) == 2


def test_list_of_an_id_says_that_it_is_none_of_a_title(ran: Cli) -> None:
    id = ran("list", "bad").out.splitlines()[1].split()[0]
    done = ran("list", id)
    assert (done.code, done.out) == (2, "")
    assert f"'{id}' is an id, not a title. run.py status {id} shows it." in done.err


def test_list_of_nothing(cli: Cli) -> None:
    done = cli("list")
    assert (done.code, done.out, done.err) == (0, "", "run.py: no experiments yet\n")
    assert json.loads(cli("list", "--json").out)["experiments"] == []


@pytest.mark.parametrize(
    "words",
    [
        ["cancel", ""],
        ["cancel", "long", ""],
        ["status", ""],
        ["status", "long", " "],
        ["logs", ""],
        ["logs", "long", ""],
        ["logs", "--node", ""],
        ["list", ""],
        ["show", ""],
        ["show", "long", "record", ""],
        ["profiles", "-d", ""],
    ],
)
def test_an_empty_word_is_an_unset_variable_and_never_the_default(ran: Cli, words: list[str]) -> None:
    done = ran(*words)
    assert (done.code, done.out) == (2, "")
    assert "its value is empty. Is a variable unset?" in done.err
    assert "- Status: RUNNING" in ran("status", "long").out


def test_cancel_is_sure_and_keeps_what_has_ended(ran: Cli) -> None:
    done = ran("cancel", "long")
    assert (done.code, "- Status: CANCELLED\n" in done.out) == (0, True)
    assert "- Status: CANCELLED\n" in ran("status", "long").out
    assert "- Status: FAILED\n" in ran("cancel", "bad").out


def test_show(ran: Cli) -> None:
    script = ran("show", "bad", "script").out
    assert script.startswith("#!/bin/bash\n")
    document = json.loads(ran("show", "bad", "record").out)
    assert document["tasks"]["bad"]["recipe"].endswith("/bad.sh")
    assert json.loads(ran("show", "bad", "script", "--json").out)["scripts"] == {"bad": script}
    assert ran("show", "bad", "config").out.startswith("bad:\n  kind: local\n")


def test_profiles(cli: Cli) -> None:
    assert (cli("profiles").code, "no profiles" in cli("profiles").err) == (0, True)
    cli.script("profiles.yaml", "good:\n  executor: local\nbad:\n  extends: good\n  grase: '10'\n")
    done = cli("profiles")
    assert done.code == 2
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [["good", "local"], ["bad", "local"]]
    assert "Did you mean grace?" in done.err
    document = json.loads(cli("profiles", "--json").out)
    assert [profile["name"] for profile in document["profiles"]] == ["good", "bad"]
    assert document["profiles"][1]["problems"]


def test_a_damaged_record_does_not_hide_the_others(ran: Cli) -> None:
    [record] = ran.home.glob("experiments/bad/*/experiment.json")
    record.write_text("{")
    done = ran("list")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert "is damaged" in done.err


def test_what_a_failed_tasks_log_shows_is_named_with_its_remedy(cli: Cli) -> None:
    line = "OSError: [Errno 122] Disk quota exceeded: 'latest.pt'"
    script = cli.script("full.sh", f'echo start; echo "{line}" >&2; exit 1\n')
    done = cli("-s", script, "--wait")
    assert done.code == 1
    assert f"- Known failure: quota, your quota on a file system is used up; it may be the number of files: {line}" in (
        done.out.splitlines()
    )
    assert "- Remedy: remove old checkpoints and caches, or ask for more\n" in done.out
    assert "run.py: full shows quota: " in done.err and "run.py: remedy: " in done.err
    [task] = json.loads(cli("status", "full", "--json").out)["tasks"]
    assert (task["finding"]["name"], task["finding"]["line"], len(task["finding"]["remedies"])) == ("quota", line, 2)
    logs = cli("logs", "full")
    assert logs.out == f"start\n{line}\n"
    assert "run.py: full shows quota: " in logs.err
    cli("-s", cli.script("fine.sh", f'echo "{line}"\n'), "--wait")
    assert "Known failure" not in cli("status", "fine").out
