"""Values of secrets are looked for in everything that would be written down."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nemo_launch as nl

VALUE = "hf_do-not-tell-1234"
HEAD = "import os\nimport nemo_launch as nl\n"
FILES = {
    "an argument": "def fit(key=''): ...\ndef recipe(): return nl.Partial(fit, key=os.environ['HF_TOKEN'])",
    "a default": "def fit(key=os.environ['HF_TOKEN']): ...\ndef recipe(): return nl.Partial(fit)",
    "in a dict": "def fit(x): ...\ndef recipe(): return nl.Partial(fit, x={'key': 'Bearer ' + os.environ['HF_TOKEN']})",
    "bytes": "def fit(key): ...\ndef recipe(): return nl.Partial(fit, key=os.environ['HF_TOKEN'].encode())",
    "a constant": "key = os.environ['HF_TOKEN']\ndef fit(): print(key)\ndef recipe(): return nl.Partial(fit)",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN", VALUE)
    return tmp_path / "home"


def refusal(recipe: Any, **config: Any) -> str:
    with pytest.raises(nl.InputError) as refused:
        experiment = nl.Experiment("demo", nl.LocalExecutor(launcher="none", **config))
        experiment.add(recipe, name="fit")
        experiment.run()
    assert VALUE not in str(refused.value)
    assert not os.path.exists(os.environ["NEMORUN_HOME"])
    return str(refused.value)


def recipe_file(folder: Path, text: str, **fields: Any) -> nl.RecipeFile:
    (folder / "fit.py").write_text(HEAD + text)
    return nl.RecipeFile(str(folder / "fit.py"), **fields)


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_in_a_recipe(tmp_path: Path, text: str) -> None:
    told = refusal(recipe_file(tmp_path, text), work_dir=str(tmp_path))
    assert "key: the value of the secret HF_TOKEN stands in it, and would be written down. " in told
    assert told.startswith(("fit: key", "fit: x.key"))
    assert "read HF_TOKEN from the environment in the job" in told


def test_in_an_override(tmp_path: Path) -> None:
    text = "def fit(key=''): ...\ndef recipe(): return nl.Partial(fit)"
    assert refusal(recipe_file(tmp_path, text, overrides=[f"key={VALUE}"])).startswith("fit: key: the value of")


SCRIPTS: dict[str, tuple[Callable[[], nl.Script], str]] = {
    "an argument": (lambda: nl.Script(inline="echo", args=["--token", VALUE]), "fit: argument 2: "),
    "its text": (lambda: nl.Script(inline=f"login --token {VALUE}"), "fit: its code: "),
    "another variable": (lambda: nl.Script(inline="echo", env={"OPTIONS": f"--token={VALUE}"}), "fit: env: OPTIONS: "),
}


@pytest.mark.parametrize(("script", "place"), SCRIPTS.values(), ids=SCRIPTS)
def test_in_a_script(script: Callable[[], nl.Script], place: str) -> None:
    assert refusal(script()).startswith(place + "the value of the secret HF_TOKEN")


def test_in_the_executor() -> None:
    assert "env_vars: OPTIONS: the value of" in refusal(nl.Script(inline="echo"), env_vars={"OPTIONS": f"a {VALUE}"})


def test_of_secrets_that_are_given_in_python() -> None:
    script = nl.Script(inline="echo", args=['do "not" tell'], env={"STORE_KEY": 'do "not" tell'})
    assert "argument 1: the value of the secret STORE_KEY" in refusal(script)


def test_short_values_may_stand_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "none")
    experiment = nl.Experiment("demo", nl.LocalExecutor(launcher="none"))
    experiment.add(nl.Script(inline="echo none", args=["none"]))
    assert experiment.plan()
