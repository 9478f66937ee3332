"""Recipes are lowered on a machine that has what this package requires, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TUNED = ["model.path=/models/base", "dataset.path=/data/train.jsonl", "dataset.tokenizer=/models/base"]
RECIPES = {
    "pretrain/llama_tiny_pt.py": [],
    "pretrain/llama3p1_2b_pt.py": ["dataset.path=/data/text"],
    "finetune/sft_hf_pt.py": TUNED,
    "finetune/cpt_hf_pt.py": TUNED,
}


def required() -> Iterator[metadata.Distribution]:
    """What pyproject.toml requires, and what that requires, as it is installed here."""
    from packaging.requirements import Requirement

    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    wanted = list(tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"])
    seen: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        found = metadata.distribution(requirement.name)
        wanted += found.requires or []
        yield found


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of its own, with nothing but the required packages."""
    folder = tmp_path_factory.mktemp("required") / "venv"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in required():
        for file in package.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))))
    return folder / "bin" / "python"


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_lowered(bare_python: Path, tmp_path: Path, recipe: str) -> None:
    env = {"HOME": str(tmp_path), "NEMORUN_HOME": str(tmp_path / "runs"), "PATH": os.defpath}
    absent = subprocess.run([bare_python, "-c", "import torch"], env=env, capture_output=True)
    assert b"No module named 'torch'" in absent.stderr
    words = ["-d", str(tmp_path), "-s", recipe, "--python", sys.executable, "--dry-run", *RECIPES[recipe]]
    done = subprocess.run([bare_python, str(CHECKOUT / "run.py"), *words], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "# Recipe: recipe = Partial(trainer.loop.train)" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_typo_is_told_there_too(bare_python: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.defpath}
    words = ["-d", str(tmp_path), "-s", "pretrain/llama_tiny_pt.py", "step_scheduler.max_step=4"]
    done = subprocess.run([bare_python, str(CHECKOUT / "run.py"), *words], env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Did you mean max_steps?" in done.stderr
