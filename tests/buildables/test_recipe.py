"""Experiment.add of Python objects: what they become, and that later changes do not reach a task."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import fiddle as fdl
import pytest

import nemo_launch as nl
from tests.buildables.things import Model, Optimizer, train, train_later

MODEL = nl.Config(Model, layers=1)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def experiment(**config: Any) -> nl.Experiment:
    root = Path(__file__).resolve().parents[2]
    return nl.Experiment("demo", nl.LocalExecutor(work_dir=str(root), launcher="none", **config))


def graph_of(task: nl.Task) -> str:
    (code,) = [code for code in task.code if code.texts]
    return code.texts["graph.json"].decode()


def test_it_becomes_a_task_with_its_values() -> None:
    one = experiment()
    assert one.add(nl.Partial(train, model=MODEL, label="a b")) == "train"
    (task,) = [plan.task for plan in one.plan()]
    assert task.recipe == "tests.buildables.things.train"
    assert task.language == "python"
    assert task.argv[0].endswith("/recipe.py")
    assert task.config is not None
    assert task.config["model.layers"] == 1
    assert task.config["label"] == "a b"
    assert "config" in task.record()


@pytest.mark.parametrize("kind", [nl.Partial, fdl.Partial])
def test_fiddles_own_are_taken(kind: Any) -> None:
    one = experiment()
    one.add(kind(train, model=fdl.Config(Model, layers=3)))
    assert one.plan()[0].task.config["model.layers"] == 3  # type: ignore[index]


def test_later_changes_do_not_reach_a_task() -> None:
    one, recipe = experiment(), nl.Partial(train, model=nl.Config(Model, layers=1), sizes=[1])
    for layers in (2, 3):
        recipe.model.layers = layers
        recipe.sizes.append(layers)
        one.add(recipe)
    recipe.model.layers = 9
    tasks = [plan.task for plan in one.plan()]
    assert [task.name for task in tasks] == ["train", "train_1"]
    assert [task.config["model.layers"] for task in tasks if task.config] == [2, 3]
    assert [task.config["sizes"] for task in tasks if task.config] == ["[1, 2]", "[1, 2, 3]"]
    assert graph_of(tasks[0]) != graph_of(tasks[1])


def test_equal_recipes_are_equal_requests() -> None:
    def graph(**fields: Any) -> str:
        one = experiment()
        one.add(nl.Partial(train, model=nl.Config(Model, layers=1), **fields))
        return graph_of(one.plan()[0].task)

    assert graph(label="a") == graph(label="a")
    assert graph(label="a") != graph(label="b")


def test_what_is_no_recipe() -> None:
    with pytest.raises(
        nl.InputError, match=r"a Config of Model makes an object, and runs nothing. Give nemo_launch.Par"
    ):
        experiment().add(nl.Config(Model, layers=1))


def test_all_problems_of_all_tasks() -> None:
    one = experiment()
    one.add(nl.Partial(train, max_steps="x"), name="a")
    one.add(nl.Partial(train_later), name="b")
    one.add(nl.Partial(train, model=MODEL, label=lambda: 1), name="c")
    with pytest.raises(nl.InputError) as refused:
        one.plan()
    told = [str(problem) for problem in refused.value.problems]
    assert [text.split(":")[0] + ":" + text.split(":")[1] for text in told] == ["a: model", "a: max_steps", "b: train_later is an async function", "c: label"]  # fmt: skip # noqa: E501


def test_environment_and_secrets() -> None:
    from nemo_launch.buildables.recipe import PythonRecipe

    one = experiment()
    one.add(PythonRecipe(nl.Partial(train, model=MODEL), env={"A": "1", "HF_TOKEN": "s3cr3t"}))
    (task,) = [plan.task for plan in one.plan()]
    assert task.env == {"A": "1"}
    assert task.secrets == ("HF_TOKEN",)
    assert "s3cr3t" not in json.dumps(task.record())
    with pytest.raises(nl.InputError, match="name and value of 'A' must both be text"):
        two = experiment()
        two.add(PythonRecipe(nl.Partial(train, model=MODEL), env={"A": 1}))  # type: ignore[dict-item]
        two.plan()


def test_without_a_copy_the_folders_themselves_are_imported_from() -> None:
    one = experiment(snapshot=False)
    one.add(nl.Partial(train, model=MODEL))
    (task,) = [plan.task for plan in one.plan()]
    assert str(Path(__file__).resolve().parents[2]) in task.pythonpath
    assert [code.root for code in task.code] == ["recipe"]


def test_a_module_from_elsewhere_travels_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, lib = tmp_path / "work", tmp_path / "lib"
    (lib / "elsewhere_package").mkdir(parents=True)
    work.mkdir()
    (lib / "elsewhere_package" / "__init__.py").write_text("")
    (lib / "elsewhere_package" / "module.py").write_text("def run():\n    print('ran from', __file__)\n")
    monkeypatch.syspath_prepend(str(lib))
    from elsewhere_package.module import run  # type: ignore[import-not-found]

    one = nl.Experiment("demo", nl.LocalExecutor(work_dir=str(work), launcher="none"))
    one.add(nl.Partial(run))
    one.run()
    (status,) = one.statuses()
    assert status.observation.state == "SUCCEEDED"
    log = Path(status.job.paths.log(str(status.job.handle))).read_text()
    assert f"ran from {os.environ['NEMORUN_HOME']}/snapshots/" in log


def test_a_recipe_file_from_python(tmp_path: Path) -> None:
    (tmp_path / "rec_trainer.py").write_text("def train(steps: int = 1):\n    print('steps', steps)\n")
    text = "import nemo_launch as nl, rec_trainer\ndef recipe(): return nl.Partial(rec_trainer.train)\n"
    (tmp_path / "rec.py").write_text(text)
    executor = nl.LocalExecutor(work_dir=str(tmp_path), launcher="none")
    one = nl.Experiment("demo", executor)
    assert one.add(nl.RecipeFile("rec.py", overrides=["steps=3"])) == "rec"
    assert one.plan()[0].task.config == {"recipe": "Partial(rec_trainer.train)", "steps": 3}
    assert "rec_trainer" not in sys.modules
    for recipe, why in (
        (nl.Script("rec.py"), r"rec.py is a recipe file: .* Write nemo_launch.RecipeFile\(FILE\)"),
        (nl.RecipeFile("rec_trainer.py"), r"rec_trainer.py has no function recipe\(\) without arguments"),
        (nl.RecipeFile("rec.py", overrides="steps=3"), r"'steps=3' is not a list of words"),
    ):
        two = nl.Experiment("demo", executor)
        two.add(recipe)
        with pytest.raises(nl.InputError, match=why):
            two.plan()
    three = nl.Experiment("demo", executor)
    three.add(nl.Script("rec.py", entrypoint="python"))
    assert three.plan()[0].task.config is None


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_recipe_file_imports_from_the_recipes_folder_above_it(tmp_path: Path, snapshot: bool) -> None:
    """Wherever the work dir is: here it has the `recipes` folder in it."""
    recipes = tmp_path / "clone" / "recipes"
    for name, text in {
        "shared_by_recipes/fit.py": "def fit(steps):\n    print('fitted', steps)\n",
        "kind/tiny.py": "import nemo_launch as nl\nfrom shared_by_recipes.fit import fit\n"
        "def recipe():\n    return nl.Partial(fit, steps=3)\n",
    }.items():
        (recipes / name).parent.mkdir(parents=True, exist_ok=True)
        (recipes / name).write_text(text)
    executor = nl.LocalExecutor(work_dir=str(tmp_path / "clone"), launcher="none", snapshot=snapshot)
    exp = nl.Experiment("demo", executor)
    exp.add(nl.RecipeFile(str(recipes / "kind" / "tiny.py")), name="tiny")
    exp.run()
    (task,) = exp.wait()
    assert task.observation.exit_code == 0
    (log,) = Path(os.environ["NEMORUN_HOME"]).glob("experiments/demo/*/tiny/*.log")
    assert "fitted 3" in log.read_text()


def test_a_config_that_contains_itself_is_refused() -> None:
    inner = nl.Config(Optimizer)
    inner.schedule = [inner]
    one = experiment()
    one.add(nl.Partial(train, model=MODEL, optimizer=inner))
    with pytest.raises(nl.InputError, match="optimizer.schedule"):
        one.plan()
