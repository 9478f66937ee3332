"""Whatever is wrong with a request: one clear paragraph for each problem, and nothing is created."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import RUN_PY, Cli, Done

Refused = Callable[..., Done]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], ["-s/--script", "there is no script to run"]),
        (["a.sh"], ["Did you mean run.py -s a.sh?"]),
        (["attach", "demo_1"], ["attach is not in this version"]),
        (["rl", "-N", "2"], ["rl is not in this version"]),
        (["node-shell"], ["node-shell is not in this version"]),
        (["-e", "skypilot", "-s", "a.sh"], ["-e/--executor: the executor skypilot is not in this version"]),
        (["-e", "sky", "-s", "a.sh"], ["profiles.yaml:5", "the executor skypilot is not in this version"]),
        (["-s", "program.sh"], ["a program, not a script. Call it, with its arguments, from a shell script."]),
        (["-d", ".", "status", "a"], ["the command status comes before all flags", "Write run.py status a;"]),
        (["stauts"], ["there is no command 'stauts'", "Did you mean status?"]),
        (["lgos", "-d", ".", "-s", "a.sh"], ["'lgos' comes before the script", "Did you mean run.py logs?", "-- lgos"]),
        (["-e", "local", "status", "-s", "a.sh"], ["'status' comes before the script", "Did you mean run.py status?"]),
        (["-s", "nothere.py"], ["-s/--script", "there is no nothere.py"]),
        (["-s", "a.sh", "--tim", "3"], ["no flag --tim", "Did you mean --time?", "-- --tim"]),
        (["-s", "a.sh", "--lr", "3"], ["no flag --lr", "after --"]),
        (["-s"], ["-s/--script", "needs a value"]),
        (["-s", "a.sh", "--sbatch-arg", "--x=1"], ["--sbatch-arg=VALUE"]),
        (["-s", ""], ["-s/--script", "empty"]),
        (["-s", "a.sh", "-d", ""], ["-d/--work-dir", "empty", "unset"]),
        (["-s", "a.sh", "-p", "x"], ["-p/--partition", "local has no use for it"]),
        (["-s", "a.sh", "--exclusive"], ["--exclusive", "local has no use for it"]),
        (["-s", "a.sh", "--ntasks-per-node", "two"], ["--ntasks-per-node", "'two' is not a whole number"]),
        (["-s", "a.sh", "--ntasks-per-node", "0"], ["--ntasks-per-node", "less than 1"]),
        (["-s", "a.sh", "--time", "0:240:0"], ["--time", "'0:240:0' is not a duration", "HH:MM:SS"]),
        (["-s", "a.sh", "--launcher", "torchrum"], ["--launcher", "Did you mean torchrun?"]),
        (["-s", "a.sh", "--wait", "--detach"], ["--wait and --detach exclude each other"]),
        (["-s", "a.sh", "--env", "NOT_SET"], ["--env", "NOT_SET is not set here"]),
        (["-s", "a.sh", "--env", "=x"], ["--env", "no name"]),
        (["-s", "a.sh", "--env", "a-b=x"], ["a-b"]),
        (["-s", "a.sh", "--secret", "NOT_SET"], ["NOT_SET"]),
        (["-s", "a.sh", "-e", "slrm"], ["-e/--executor", "Did you mean slurm?"]),
        (["-s", "a.sh", "--config", "nothere.yaml"], ["nothere.yaml"]),
        (["-s", "a.sh", "--config", "bad.yaml"], ["bad.yaml:2", "grase", "Did you mean grace?"]),
        (["-s", "a.sh", "-e", "broken"], ["profiles.yaml:3", "nods"]),
        (["-s", "a.sh", "--experiment-name", "a/b"], ["--experiment-name", "a/b"]),
        (["-s", "a.sh", "-d", "/nothere"], ["/nothere"]),
        (["-s", "."], ["-s/--script"]),
        (["-s", "a.sh", "--exclusive=3"], ["--exclusive", "takes no value, and '3' was given"]),
        (["-s", "a.sh", "--python", "/nothere/python"], []),
    ],
)
def test_bad_requests(cli: Cli, refused: Refused, words: list[str], says: list[str]) -> None:
    cli.script("a.sh", "true\n")
    cli.script("bad.yaml", "time: '10'\ngrase: '10'\n")
    cli.script("profiles.yaml", "broken:\n  executor: slurm\n  nods: 2\nsky:\n  executor: skypilot\n")
    cli.script("program.sh", "\x7fELF")
    if "--python" in words:
        words = [cli.script("b.py", "") if word == "a.sh" else word for word in words]
    done = refused(*words)
    for text in says:
        assert text in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-e", "slurm", "-s", "a.sh", "--mount", "/a:/b"], "--mount: it has no effect without a container"),
        (["-s", "a.sh", "--include", "x", "--no-snapshot"], "--include: it has no effect where no copy is taken"),
        (["-s", "a.sh", "--python", "/usr/bin/python3"], "--python: it has no effect: "),
        (["-s", "a.sh", "--env", "X=v", "--secret", "X"], "--env: X is given by --secret, too"),
        (["-s", "a.sh", "--env", "X", "--secret", "X"], "--env: X is given by --secret, too"),
        (["-s", "a.sh", "--env", "MY_TOKEN=v", "--secret", "MY_TOKEN"], "--env: MY_TOKEN is given by --secret, too"),
        (["-s", "a.sh", "-e", "hidden", "--env", "X=v"], "--env: X is a secret, and env_vars has a value for it"),
        (["-s", "a.sh", "--log-dir", "file"], "--log-dir: {work}/file is not a directory"),
        (["-s", "a.sh", "--cache-dir", "file"], "--cache-dir: {work}/file is not a directory"),
        (["-s", "a.sh", "--data-dir", "file"], "--data-dir: {work}/file is not a directory"),
        (["-e", "slurm", "-s", "a.sh", "--job-dir", "file"], "--job-dir: {work}/file is not a directory"),
    ],
)
def test_what_would_do_nothing_is_refused(cli: Cli, refused: Refused, words: list[str], says: str) -> None:
    cli.script("a.sh", "true\n")
    cli.script("file", "")
    cli.script("profiles.yaml", "hidden:\n  executor: local\n  secrets: [X]\n")
    done = refused(*words, X="x", MY_TOKEN="t")
    assert done.err.count(says.format(work=cli.work)) == 1, done.err


def test_python_is_for_python_and_torchrun(cli: Cli) -> None:
    cli.script("a", "#!/usr/bin/env python3\n")
    cli.script("a.sh", "true\n")
    assert cli("-s", "a", "--launcher", "none", "--python", sys.executable, "--dry-run").code == 0
    assert cli("-s", "a.sh", "--launcher", "torchrun", "--python", sys.executable, "--dry-run").code == 0


def test_the_same_secret_by_name_twice_is_no_conflict(cli: Cli) -> None:
    words = ["-s", cli.script("a.sh", "true\n"), "--env", "MY_TOKEN", "--secret", "MY_TOKEN", "--dry-run"]
    assert cli(*words, MY_TOKEN="t").code == 0


def test_all_problems_at_once(refused: Refused) -> None:
    done = refused("-s", "nothere.py", "--time", "x", "--lrr", "--ntasks-per-node", "no", "-p", "a3m")
    for text in ("nothere.py", "'x' is not a duration", "--lrr", "'no' is not a whole number", "-p/--partition"):
        assert text in done.err
    assert len(done.err.splitlines()) == 5


def test_a_name_that_nobody_typed_is_not_complained_of(cli: Cli, refused: Refused) -> None:
    for script in (".", "..", "recipes/.."):
        assert "--experiment-name" not in refused("-s", script).err
    cli.script(".a.sh", "true\n")
    [line] = refused("-s", ".a.sh").err.splitlines()
    assert line.startswith("run.py: error: -s/--script: '.a' cannot be a title")
    assert line.endswith("Give another name: --experiment-name NAME.")


def test_what_is_empty_is_told_once(cli: Cli, refused: Refused) -> None:
    cli.script("a.sh", "true\n")
    flags = ["--account", "--mem", "--time", "--secret", "--qos", "--mount", "-i", "--python", "--include", "-d", "-n"]
    done = refused("-e", "slurm", "-s", "a.sh", *(word for flag in flags for word in (flag, "")))
    assert len(done.err.splitlines()) == len(flags) == done.err.count("its value is empty. Is a variable unset?")


def test_what_was_typed_is_no_hint(cli: Cli, refused: Refused) -> None:
    (cli.work / "nice.sh").symlink_to("nice.sh")
    for typed in ("nice.sh", "./nice.sh", str(cli.work / "nice.sh")):
        assert "Did you mean" not in refused("-s", typed).err


def test_a_fault_is_told_once_in_the_words_of_the_command_line(refused: Refused) -> None:
    done = refused("-e", "slurm", "-s", "nothere.sh", "-n", "-1", "--mem", "64GB")
    assert done.err.count("-1 is less than 1") == 1
    assert "--mem: '64GB' is not an amount of memory. Write 64G." in done.err
    assert "SlurmConfig" not in done.err


def test_a_machine_without_slurm(cli: Cli, refused: Refused, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "git"):
        for folder in os.get_exec_path():
            if os.access(os.path.join(folder, name), os.X_OK):
                (tools / name).symlink_to(os.path.join(folder, name))
                break
    done = refused("-e", "slurm", "-s", cli.script("a.sh", "true\n"), PATH=str(tools))
    assert "sbatch" in done.err


def test_no_torch_where_the_task_runs(cli: Cli, refused: Refused) -> None:
    python = os.path.join(sys.base_prefix, "bin", "python3")
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
        pytest.skip("the base Python has torch")
    done = refused("-s", cli.script("a.py", "print(1)\n"), "--launcher", "torchrun", "--python", python)
    assert "torch" in done.err


@pytest.mark.parametrize("home", ["/proc/nothere", "/dev/null/home"])
def test_a_home_that_cannot_be_written(cli: Cli, refused: Refused, home: str) -> None:
    done = refused("-s", cli.script("a.sh", "true\n"), NEMORUN_HOME=home)
    assert "cannot write" in done.err
    assert "NEMORUN_HOME" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["status"], "no experiment in"),
        (["status", "demo"], "no experiment 'demo'"),
        (["status", "--jsn"], "Did you mean --json?"),
        (["logs", "demo"], "no experiment 'demo'"),
        (["logs", "--rank", "x"], "'x' is not a whole number"),
        (["logs", "--attempt", "0"], "'0' is not a whole number from 1 on, nor all"),
        (["cancel"], "experiment"),
        (["cancel", "demo"], "no experiment 'demo'"),
        (["list", "demo"], "no experiment 'demo'"),
        (["show", "demo"], "no experiment 'demo'"),
        (["show", "demo", "scrpt"], "scrpt"),
    ],
)
def test_bad_questions(refused: Refused, words: list[str], says: str) -> None:
    assert says in refused(*words).err


def test_a_near_name_is_offered(cli: Cli) -> None:
    cli("-s", cli.script("training.sh", "true\n"), "--wait")
    done = cli("status", "trainin")
    assert (done.code, "training" in done.err) == (2, True)
    done = cli("logs", "training", "trainng")
    assert (done.code, "Did you mean training?" in done.err) == (2, True)


def test_a_clone_without_its_dependencies_names_them(cli: Cli) -> None:
    cli.script("cattrs.py", "raise ModuleNotFoundError(\"No module named 'cattrs'\", name='cattrs')\n")
    # plain values need no library: one that is wrong does
    done = cli("-s", cli.script("a.sh", "true\n"), "--ntasks-per-node", "two", PYTHONPATH=str(cli.work))
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert "the Python package cattrs is missing from" in done.err
    assert "bug" not in done.err


def nowhere(cli: Cli, *words: str, **env: str) -> Done:
    """run.py called from a directory that has been removed."""
    gone = cli.work.parent / "gone"
    command = f'mkdir "{gone}" && cd "{gone}" && rmdir "{gone}" && exec "$@"'
    argv = ["sh", "-c", command, "sh", sys.executable, str(RUN_PY), *words]
    done = subprocess.run(argv, env={**cli.env, **env}, capture_output=True, text=True, check=False, timeout=150)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["-s", "a.sh"], {}),
        (["-s", "{work}/a.sh"], {}),
        (["-s", "{work}/a.sh", "-d", "."], {}),
        (["-s", "{work}/a.sh", "-d", "{work}", "--log-dir", "logs"], {}),
        (["-s", "{work}/a.sh", "-d", "{work}"], {"NEMORUN_HOME": "home"}),
        (["-s", "{work}/a.sh", "-e", "mine"], {}),
        (["status"], {"NEMORUN_HOME": "home"}),
        (["profiles"], {}),
    ],
)
def test_a_current_directory_that_is_gone(cli: Cli, words: list[str], env: dict[str, str]) -> None:
    cli.script("a.sh", "true\n")
    done = nowhere(cli, *(word.format(work=cli.work) for word in words), **env)
    assert (done.code, done.out) == (2, "")
    assert "current directory: it has been removed. Change to one that exists, or give whole paths" in done.err
    assert "bug" not in done.err and len(done.err.splitlines()) == 1


def test_whole_paths_need_no_current_directory(cli: Cli) -> None:
    cli.script("a.sh", "echo hi\n")
    subprocess.run(["git", "init", "-q", str(cli.work)], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(cli.work), *identity, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    script = str(cli.work / "a.sh")
    for words in (["-s", script], ["-s", "a.sh"], ["-s", "a.sh", "--dry-run"]):
        done = nowhere(cli, *words, "-d", str(cli.work))
        assert (done.code, "hi" in done.out, done.err.count("error"), "git" in done.err) == (0, True, 0, False), done
    assert "- Status: SUCCEEDED" in nowhere(cli, "status").out
    assert nowhere(cli, "logs").out == "hi\n"


@pytest.mark.parametrize("record", ["{}", '{"tasks": [{"name": "a"}]}', '{"tasks": 3}'])
def test_a_record_that_lacks_its_tasks(cli: Cli, record: str) -> None:
    folder = cli.home / "experiments" / "old" / "old_1753123402"
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text(record)
    done = cli("status", "old")
    assert (done.code, "experiment.json is damaged" in done.err, "bug" in done.err) == (2, True, False)


def test_debug_shows_the_traceback(cli: Cli) -> None:
    done = cli("-s", "nothere.py", "--debug")
    assert (done.code, "Traceback" in done.err) == (2, True)
    assert "Traceback" not in cli("-s", "nothere.py", "--", "--debug").err
