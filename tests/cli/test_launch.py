"""Launching a script on this machine, as a user sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RUN_PY, Cli

# Writes what it was given, one JSON line.
TELL = "import json, os, sys\nprint('ARGV', json.dumps(sys.argv[1:]))\nprint('ENV', json.dumps(dict(os.environ)))\n"


def told(out: str, what: str) -> object:
    [line] = [line for line in out.splitlines() if line.startswith(what + " ")]
    return json.loads(line.removeprefix(what + " "))


def block_of(out: str) -> list[str]:
    """The status block at the end of the output."""
    return out[out.index("Experiment Status for ") :].splitlines()


def test_a_local_run_is_followed_to_its_end(cli: Cli) -> None:
    done = cli("-s", cli.script("hello.sh", "echo one; echo two\n"), "--experiment-name", "demo")
    assert done.code == 0, done
    assert done.out.startswith("one\ntwo\n\nExperiment Status for demo_")
    head, blank, task, *lines = block_of(done.out)
    assert (blank, task) == ("", "Task 0: demo")
    assert lines[:2] == ["- Status: SUCCEEDED", "- Executor: LocalExecutor on @localhost"]
    job_id = lines[2].removeprefix("- Job id: ")
    folder = Path(lines[3].removeprefix("- Local Directory: "))
    assert folder == cli.home / "experiments/demo" / head.removeprefix("Experiment Status for ") / "demo"
    assert (folder / f"{job_id}.log").read_text() == "one\ntwo\n"


def test_what_is_piped_has_no_colour(cli: Cli) -> None:
    assert "\x1b" not in cli("-s", cli.script("a.sh", "true\n")).out


def test_the_title_comes_from_the_scripts_name(cli: Cli) -> None:
    assert "Experiment Status for train_tiny_" in cli("-s", cli.script("train_tiny.sh", "true\n")).out


ARGV = ["a b", "'", '"', "$HOME", "*", "é", "", "--x=1;2", "a\nb", "; touch /tmp/p", "-e", "%d", "\\", "--", "key=v,w"]


def test_words_for_the_script_arrive_untouched(cli: Cli) -> None:
    done = cli("-s", cli.script("tell.py", TELL), "--launcher", "none", "first=1", "", "--", *ARGV)
    assert done.code == 0, done
    assert told(done.out, "ARGV") == ["first=1", "", *ARGV]


def test_environment_by_value_and_by_name(cli: Cli) -> None:
    words = ["--env", "Mixed_Case=a=b $1", "--env", "EMPTY=", "--env", "FROM_HERE", "--env", "TWO=a\nb"]
    done = cli("-s", cli.script("tell.py", TELL), "--launcher", "none", *words, FROM_HERE="x", NOT_ASKED="y")
    env = told(done.out, "ENV")
    assert isinstance(env, dict)
    assert {name: env.get(name) for name in ("Mixed_Case", "EMPTY", "FROM_HERE", "TWO", "NOT_ASKED")} == {
        "Mixed_Case": "a=b $1",
        "EMPTY": "",
        "FROM_HERE": "x",
        "TWO": "a\nb",
        "NOT_ASKED": None,
    }


@pytest.mark.parametrize(
    ("words", "env", "name"),
    [
        (["--secret", "MINE"], {"MINE": "s3cr3t-$&'"}, "MINE"),
        (["--env", "API_KEY"], {"API_KEY": "s3cr3t-$&'"}, "API_KEY"),
        (["--env", "API_KEY=s3cr3t-$&'"], {}, "API_KEY"),
        ([], {"HF_TOKEN": "s3cr3t-$&'"}, "HF_TOKEN"),
    ],
)
def test_a_secret_reaches_the_job_and_nothing_else(cli: Cli, words: list[str], env: dict[str, str], name: str) -> None:
    # the script must not hold the value either, or the search below would find it
    script = cli.script("a.sh", f'[ "${name}" = "$(printf \'%s%s\' s3c "r3t-\\$&\'")" ] && echo same\n')
    done = cli("-s", script, *words, **env)
    assert done.out.startswith("same\n"), done
    dry = cli("-s", script, *words, "--dry-run", **env)
    assert name in dry.out
    shown = cli("show", "a").out + cli("status").out
    assert "s3cr3t" not in done.out + done.err + dry.out + dry.err + shown
    for path in cli.home.rglob("*"):
        assert path.is_dir() or path.is_symlink() or b"s3cr3t" not in path.read_bytes(), path


def test_a_failure_is_the_exit_code_and_said(cli: Cli) -> None:
    done = cli("-s", cli.script("a.sh", "exit 7\n"))
    assert done.code == 1
    assert "- Status: FAILED" in block_of(done.out)
    assert "- Exit code: 7" in block_of(done.out)
    assert done.err.endswith("run.py: a is FAILED: exit code 7\n")


def test_wait_shows_no_log_and_ends_alike(cli: Cli) -> None:
    done = cli("-s", cli.script("a.sh", "echo printed; exit 3\n"), "--wait")
    assert (done.code, "printed" in done.out) == (1, False)
    assert "exit code 3" in done.err
    assert cli("-s", cli.script("b.sh", "true\n"), "--wait").code == 0


def test_detach_returns_while_it_runs(cli: Cli) -> None:
    done = cli("-s", cli.script("a.sh", "sleep 60\n"), "--detach")
    assert done.code == 0
    assert {"- Status: RUNNING", "- Status: PENDING"} & set(block_of(done.out))
    [command] = [line.removeprefix("- Next: ") for line in block_of(done.out) if line.startswith("- Next: ")]
    program, _, rest = command.partition(" logs -f a_")
    assert program.startswith("python3 ") and program.endswith("/run.py") and rest, "it can be pasted as it is"


def test_json_alone_is_on_standard_output(cli: Cli) -> None:
    script = cli.script("a.sh", "echo printed; exit 2\n")
    for words in (["--json"], ["--json", "--follow"]):
        done = cli("-s", script, *words)
        [task] = json.loads(done.out)["tasks"]
        assert (done.code, task["state"], task["exit_code"]) == (1, "FAILED", 2)
        assert ("printed" in done.err) == ("--follow" in words)


def test_an_unfinished_line_does_not_touch_the_block(cli: Cli) -> None:
    assert cli("-s", cli.script("a.sh", "printf end\n")).out.startswith("end\n\nExperiment Status")


def test_the_same_command_twice_makes_two_experiments(cli: Cli) -> None:
    script = cli.script("a.sh", "true\n")
    first, second = cli("-s", script), cli("-s", script, "--detach")
    assert block_of(first.out)[0] != block_of(second.out)[0]


def test_profile_config_file_and_flags_in_this_order(cli: Cli) -> None:
    (cli.work / "profiles.yaml").write_text(
        "mine:\n  executor: local\n  env_vars: {A: profile, B: profile, C: profile}\n"
    )
    (cli.work / "more.yaml").write_text("env_vars:\n  B: file\n  C: file\n")
    words = ["-e", "mine", "--config", "more.yaml", "--env", "C=flag"]
    done = cli("-s", cli.script("a.sh", "echo $A $B $C\n"), *words)
    assert done.out.startswith("profile file flag\n"), done


def test_a_script_may_say_what_it_needs(cli: Cli) -> None:
    block = (
        '# /// script\n# [tool.nemo-launch]\n# launcher = "none"\n# env_vars = {A = "1", B = "1"}\n# nodes = 2\n# ///\n'
    )
    done = cli("-s", cli.script("a.py", block + "import os; print(os.environ['A'], os.environ['B'])"), "--env", "B=2")
    assert done.out.startswith("1 2\n"), done
    assert "nodes of [tool.nemo-launch] is for other executors" in done.err


def test_what_a_script_needs_is_read_behind_a_byte_order_mark(cli: Cli) -> None:
    block = '\ufeff# /// script\n# [tool.nemo-launch]\n# launcher = "none"\n# env_vars = {A = "1"}\n# ///\n'
    done = cli("-s", cli.script("a.py", block + "import os; print(os.environ['A'])"))
    assert done.out.startswith("1\n"), done


def test_module_and_driver_are_one_program(cli: Cli) -> None:
    env = {**os.environ, "PYTHONPATH": str(RUN_PY.parent), "NEMORUN_HOME": str(cli.home)}
    words = [sys.executable, "-m", "nemo_launch", "-s", cli.script("a.sh", "echo hi\n")]
    done = subprocess.run(words, cwd=cli.work, env=env, capture_output=True, text=True)
    assert done.stdout.startswith("hi\n"), done


def test_a_reader_that_goes_away_is_no_fault(cli: Cli) -> None:
    cli("-s", cli.script("a.sh", "seq 200000\n"), "--wait")
    process = cli.start("logs", "a")
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(20) == 141
