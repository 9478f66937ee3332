"""``run.py -s FILE key=value …``: a recipe file is called for what to run; scripts stay scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import Cli, Done

TRAINER = """\
from dataclasses import dataclass

@dataclass
class Model:
    layers: int
    act: str = "relu"

def train(model: Model, max_steps: int = 3, label: str = "x", nodes: int = 1):
    print("trained", model.layers, model.act, max_steps, label, nodes)
"""
RECIPE = """\
# /// script
# [tool.nemo-launch]
# time = "10"
# launcher = "none"
# ///
import nemo_launch as nl
from trainer import Model, train

def recipe():
    return nl.Partial(train, model=nl.Config(Model, layers=2))

if __name__ == "__main__":
    raise SystemExit("executed")
"""


@pytest.fixture
def recipe(cli: Cli) -> str:
    cli.script("trainer.py", TRAINER)
    return cli.script("rec.py", RECIPE)


def test_it_runs_with_overrides(cli: Cli, recipe: str) -> None:
    label = "% @ * # = , : / 中文"
    done = cli("-s", recipe, "model.layers=4", f"label={label}", "nodes=3")
    assert done.code == 0, done
    assert f"trained 4 relu 3 {label} 3" in done.out
    config = cli("show", "rec", "config", "--json")
    assert json.loads(config.out)["tasks"]["rec"]["recipe"] == {
        "recipe": "Partial(trainer.train)",
        "model": "Config(trainer.Model)",
        "model.layers": 4,
        "model.act": "relu",
        "max_steps": 3,
        "label": label,
        "nodes": 3,
    }
    assert "  recipe:\n    recipe: Partial(trainer.train)\n" in cli("show", "rec", "config").out


def test_a_dry_run_shows_every_value_and_writes_nothing(cli: Cli, recipe: str) -> None:
    done = cli("-s", recipe, "model.layers=4", "--dry-run")
    assert done.code == 0, done
    for line in ("recipe = Partial(trainer.train)", "model.layers = 4", "model.act = 'relu'", "max_steps = 3"):
        assert f"# Recipe: {line}\n" in done.out
    shown = json.loads(cli("-s", recipe, "--dry-run", "--json").out)["tasks"][0]
    assert shown["recipe"]["model.layers"] == 2
    assert cli.created() == []
    assert sorted(path.name for path in cli.work.iterdir()) == ["rec.py", "trainer.py"]


def test_all_problems_at_once(refused: Callable[..., Done], cli: Cli) -> None:
    cli.script("trainer.py", TRAINER)
    name = cli.script("rec.py", RECIPE.replace(", layers=2", ""))
    said = refused("-s", name, "model.akt=gelu", "max_steps=many", "fast", "--nodez", "--time", "soon", "nodes=no").err
    for part in (
        "there is no flag --nodez. Did you mean --nodes?",
        "--time: 'soon' is not a duration",
        "rec.py: model.akt: Model takes no akt. Did you mean act?",
        "rec.py: max_steps: 'many' is given, and int is wanted.",
        "rec.py: nodes: 'no' is given, and int is wanted.",
        "rec.py: 'fast' is no NAME=VALUE, and a recipe file takes no other words.",
        "rec.py: model.layers: Model needs it, and it is not set. Give it a value: model.layers=…",
    ):
        assert f"run.py: error: {part}" in said
    assert len(said.splitlines()) == 7


REFUSED = {
    "a config": ("return nl.Config(Model, layers=2)", "a Config of Model makes an object, and runs nothing"),
    "nothing": ("pass", "recipe() returns None. Return a nemo_launch.Partial(train, …)"),
    "an object": ("return 3", "recipe() returns 3 (int)."),
    "a generator": ("yield 3", "recipe() returns <generator"),
    "its own mistake": (
        "return nl.Partial(train, modle=3)",
        "rec.py:10: Partial: train takes no modle. Did you mean model?",
    ),
    "what cannot travel": ("return nl.Partial(train, model=nl.Config(Model, layers=2), label=lambda: 3)", "label: "),
}


@pytest.mark.parametrize(("body", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_recipe_may_not_return(refused: Callable[..., Done], cli: Cli, body: str, said: str) -> None:
    cli.script("trainer.py", TRAINER)
    text = RECIPE.replace("return nl.Partial(train, model=nl.Config(Model, layers=2))", body)
    assert said in refused("-s", cli.script("rec.py", text)).err


def test_a_missing_module_has_two_remedies(refused: Callable[..., Done], cli: Cli, recipe: str) -> None:
    name = cli.script("rec.py", RECIPE.replace("import nemo_launch as nl\n", "import nemo_launch as nl, not_here\n"))
    said = refused("-s", name).err
    assert f"rec.py:6: not_here is imported, which {sys.executable} does not have. Import it inside" in said
    assert "--entrypoint python" in said


def test_with_an_entrypoint_it_is_a_plain_script(cli: Cli) -> None:
    name = cli.script("args.py", "import sys\ndef recipe(): ...\nprint(sys.argv[1:])\n")
    assert "['a=1', 'b']" in cli("-s", name, "--entrypoint", "python", "--launcher", "none", "a=1", "b").out


def test_other_scripts_stay_scripts(cli: Cli) -> None:
    name = cli.script("plain.py", "import sys\ndef recipe(flour): ...\nprint(sys.argv[1:], 'fiddle' in sys.modules)\n")
    assert "['a=1', 'b'] False" in cli("-s", name, "--launcher", "none", "a=1", "b").out


def test_a_recipe_may_return_a_script(cli: Cli, refused: Callable[..., Done]) -> None:
    text = (
        "import nemo_launch as nl\ndef recipe(): return nl.Script(inline='echo script of $WHO', env={'WHO': 'mine'})\n"
    )
    name = cli.script("rec.py", text)
    assert (
        "rec.py: recipe() returns a Script, which has no fields: 'a=1' sets nothing" in refused("-s", name, "a=1").err
    )
    assert "script of mine" in cli("-s", name).out


def test_a_recipe_that_was_edited_is_another_request_and_an_equal_one_is_not(cli: Cli, recipe: str) -> None:
    def request(*words: str) -> str:
        done = cli("-s", recipe, "--detach", "--again", "--json", *words)
        folder = json.loads(done.out)["experiment"]["directory"]
        cli("status", "--wait")
        with open(f"{folder}/experiment.json") as file:
            return str(json.load(file)["request"])

    first = request("model.layers=4")
    assert request("model.layers=4") == first
    assert request("model.layers=5") != first


def test_help_and_scripts_do_without_fiddle(cli: Cli) -> None:
    cli.env["PYTHONPROFILEIMPORTTIME"] = "1"
    name = cli.script("plain.py", "print(1)\n")
    for words in (["--help"], ["-s", name, "--dry-run"]):
        done = cli(*words)
        assert done.code == 0
        assert "nemo_launch.cli" in done.err
        assert "fiddle" not in done.err
