"""Which files are recipe files: told by looking, never by running."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_launch.buildables.files import is_recipe_file
from nemo_launch.errors import InputError

YES = {
    "plain": "def recipe():\n    return 1\n",
    "all arguments have defaults": "def recipe(a=1, *rest, b=2, **more):\n    return 1\n",
    "decorated": "import nemo_launch as nl\n@nl.autoconvert(partial=True)\ndef recipe():\n    return f()\n",
    "in a script with a main guard": "def recipe(): ...\nif __name__ == '__main__':\n    1\n",
    "of which running would fail": "raise SystemExit(3)\ndef recipe(): ...\n",
    "the last definition counts": "def recipe(a): ...\ndef recipe(): ...\n",
}
NO = {
    "none": "print('recipe')\n",
    "only spoken of": "# def recipe():\n'def recipe()'\n",
    "needs an argument": "def recipe(flour): ...\n",
    "needs an argument by name": "def recipe(*, flour): ...\n",
    "a method": "class A:\n    def recipe(self=None): ...\n",
    "inside a function": "def f():\n    def recipe(): ...\n",
    "another name": "def recipes(): ...\n",
    "no Python": "def recipe(): ...\n(\n",
    "the last definition needs one": "def recipe(): ...\ndef recipe(a): ...\n",
}


@pytest.mark.parametrize(("text", "is_one"), [(t, True) for t in YES.values()] + [(t, False) for t in NO.values()])
def test_by_its_text(tmp_path: Path, text: str, is_one: bool) -> None:
    (tmp_path / "x.py").write_text(text)
    assert is_recipe_file(str(tmp_path / "x.py")) is is_one


def test_by_its_name(tmp_path: Path) -> None:
    for name in ("x.sh", "x", "x.txt"):
        (tmp_path / name).write_text(YES["plain"])
        assert not is_recipe_file(str(tmp_path / name))
    assert not is_recipe_file(str(tmp_path / "missing.py"))


def test_with_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_bytes("# -*- coding: latin-1 -*-\n# é\ndef recipe(): ...\n".encode("latin-1"))
    assert is_recipe_file(str(tmp_path / "x.py"))


def test_an_async_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1\nasync def recipe(): ...\n")
    with pytest.raises(InputError, match=r"x.py:2: recipe\(\) is an async function. .*--entrypoint python"):
        is_recipe_file(str(tmp_path / "x.py"))


OTHERWISE = {
    "needs an argument": ("def recipe(flour, *, water, salt=1): ...", r"recipe\(\) needs arguments: flour, water. "),
    "a lambda": ("recipe = lambda: 1", "recipe is no function"),
    "a config": ("recipe: nl.Partial = nl.Partial(print)", "recipe is no function"),
    "imported": ("from shared import make as recipe", "recipe is no function"),
    "below a condition": ("if True:\n    def recipe(): ...", "recipe is no function"),
    "of one of two branches": ("try:\n    x\nexcept NameError:\n    recipe = 1", "recipe is no function"),
    "no Python": ("def recipe(: ...", "it is no Python: "),
}


@pytest.mark.parametrize(("text", "told"), OTHERWISE.values(), ids=OTHERWISE)
@pytest.mark.parametrize("imports", ["import nemo_launch as nl", "from nemo_launch import Partial", "import fiddle"])
def test_what_would_do_nothing_as_a_script_is_refused(tmp_path: Path, text: str, told: str, imports: str) -> None:
    (tmp_path / "x.py").write_text(f"{imports}\n{text}\n")
    with pytest.raises(InputError, match=rf"x.py:[2-6]: {told}"):
        is_recipe_file(str(tmp_path / "x.py"))


SCRIPTS = {
    "launches by itself": "import nemo_launch as nl\nrecipe = nl.Partial(print)\nnl.Experiment('x').add(recipe)\n",
    "nothing of ours": "import torch\nrecipe = make()\ndef helper(): ...\n",
    "a name of its own": "import nemo_launch as nl\nrecipes = {}\nprint('recipe')\n",
    "under its main guard": "import fiddle\nif __name__ == '__main__':\n    recipe = 1\n",
    "spoken of": "# import nemo_launch\nrecipe = 1\n",
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_scripts_stay_scripts(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.py").write_text(text)
    assert not is_recipe_file(str(tmp_path / "x.py"))
