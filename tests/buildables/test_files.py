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
