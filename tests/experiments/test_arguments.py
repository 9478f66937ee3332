"""Ordinary mistakes of Python callers: one clear paragraph that says what to write, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nemo_launch as nl

HALF = "echo \ud800"


def experiment() -> Any:
    return nl.Experiment("demo")


def run_once() -> Any:
    once = experiment()
    once.add(nl.Script(inline="true"))
    once.run()
    return once


def planned(**fields: Any) -> None:
    one = experiment()
    one.add(nl.Script(**fields))
    one.plan()


def function() -> None:
    """Something to run, as NeMo-Run would take it."""


ANY: Any = None
MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no recipe": (lambda: experiment().add(None), "None is no recipe"),
    "a path": (lambda: experiment().add("x.sh"), r"Write nemo_launch.Script\('x.sh'\)"),
    "a Path": (lambda: experiment().add(Path("a/x.sh")), r"Write nemo_launch.Script\('a/x.sh'\)"),
    "a function": (lambda: experiment().add(function), r"Write nemo_launch.Partial\(function, …\)"),
    "the class of a recipe": (lambda: experiment().add(nl.Script), "Script is a class"),
    "a number as recipe": (lambda: experiment().add(3), r"3 \(int\) is no recipe"),
    "the name of an executor": (lambda: nl.Experiment("a", "slurm"), r"nemo_launch.executor\('slurm'\)"),  # type: ignore[arg-type]
    "the class of an executor": (lambda: nl.Experiment("a", nl.LocalExecutor), r"Make one: LocalExecutor\(...\)"),  # type: ignore[arg-type]
    "a config": (lambda: nl.Experiment("a", nl.LocalConfig()), r"LocalExecutor\(LocalConfig\(...\)\)"),  # type: ignore[arg-type]
    "a config of Slurm": (lambda: nl.Experiment("a", nl.SlurmConfig()), r"SlurmExecutor\(SlurmConfig\(...\)\)"),  # type: ignore[arg-type]
    "a number as executor": (lambda: nl.Experiment("a", 3), r"3 \(int\) is no executor"),  # type: ignore[arg-type]
    "the same for one task": (lambda: experiment().add(nl.Script(inline="true"), "slurm"), "executor: 'slurm'"),
    "a partition as config": (lambda: nl.SlurmExecutor("a3m"), r"SlurmExecutor\(FIELD='a3m'\)"),  # type: ignore[arg-type]
    "the config of another": (lambda: nl.SlurmExecutor(nl.LocalConfig()), "a LocalConfig is no SlurmConfig"),  # type: ignore[arg-type]
    "no kind": (lambda: nl.executor(ANY), "name of a kind or profile is a text, not None"),
    "an empty kind": (lambda: nl.executor(""), "name of a kind or profile is a text, not ''"),
    "a number as title": (lambda: nl.Experiment(3), r"title is a text, not 3 \(int\)"),  # type: ignore[arg-type]
    "a number as name": (lambda: experiment().add(nl.Script(inline="true"), name=3), "task's name is a text, not 3"),
    "one dependency": (
        lambda: experiment().add(nl.Script(inline="true"), dependencies="one"),
        r"dependencies=\['one'\]",
    ),
    "a number of dependencies": (lambda: experiment().add(nl.Script(inline="true"), dependencies=1), "not a list"),
    "an odd dependency": (lambda: experiment().add(nl.Script(inline="true"), dependencies=[3]), "Give what add"),
    "half a character in the text": (lambda: planned(inline=HALF), "inline: .*lone surrogate"),
    "half a character in the path": (lambda: planned(path=HALF), "path: .*lone surrogate"),
    "half a character in an argument": (lambda: planned(inline="true", args=[HALF]), r"args\[0\]: .*lone surrogate"),
    "half a character in the env": (lambda: planned(inline="true", env={"A": HALF}), "env: 'A' has a lone surrogate"),
    "bytes as text": (lambda: planned(inline=b"true"), r"inline: b'true' \(bytes\) is not text"),
    "a number as path": (lambda: planned(path=3), r"path: 3 \(int\) is not text"),
    "a number as entrypoint": (lambda: planned(inline="true", entrypoint=3), "entrypoint: 3"),
    "a number as inline and as argument": (lambda: planned(inline=3, args=[3]), r"inline: 3.*\n.*args\[0\]: 3"),
    "the log of nothing": (lambda: experiment().logs(), "not run yet"),
    "waiting for nothing": (lambda: experiment().wait(), "not run yet"),
    "the end of nothing": (lambda: experiment().cancel(), "not run yet"),
    "a text as timeout": (lambda: experiment().wait(timeout="x"), r"timeout: 'x' \(str\) is no number of seconds"),
    "a timeout in the wrong place": (lambda: experiment().wait(60), "write timeout=SECONDS"),
    "a number as title to list": (lambda: nl.Experiment.catalog(3), "title is a text, not 3"),  # type: ignore[arg-type]
    "an empty title to find": (lambda: nl.Experiment.from_title(""), "title is a text, not ''"),
    "no title to find": (lambda: nl.Experiment.from_title(ANY), "title is a text, not None"),
    "no id": (lambda: nl.Experiment.from_id(ANY), "id is a text, not None"),
    "nothing to find": (lambda: nl.Experiment.find(""), "id or title is a text, not ''"),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_paragraph(home: Path, mistake: str) -> None:
    make, said = MISTAKES[mistake]
    with pytest.raises(nl.InputError, match=said) as caught:
        make()
    assert "Traceback" not in str(caught.value)
    assert not home.exists()


def test_a_task_that_comes_too_late_is_not_lost_in_silence() -> None:
    late = run_once()
    for one in (late, nl.Experiment.from_id(late.id)):
        with pytest.raises(nl.InputError, match="Experiment.add: experiment demo_.* was run already. Make another one"):
            one.add(nl.Script(inline="true"))
        with pytest.raises(nl.InputError, match="Experiment.run: experiment demo_.* was run already"):
            one.run()


def test_an_executor_of_ones_own_and_a_recipe_of_ones_own_are_taken() -> None:
    class Own(nl.LocalExecutor):
        pass

    class Mine:
        name = "mine"

        def lower(self, *words: Any) -> Any:
            return nl.Script(inline="true").lower(*words)

    one = nl.Experiment("demo", Own())
    assert one.add(Mine()) == "mine"
    assert [plan.task.name for plan in one.plan()] == ["mine"]
