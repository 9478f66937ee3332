"""Importing a recipe file: what comes of it, what is refused, and that nothing of it stays behind."""

from __future__ import annotations

import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.buildables.loading import MARK, recipe_of
from nemo_launch.errors import InputError


def load(folder: Path, text: str, *roots: Path) -> Any:
    (folder / "rec.py").write_text(text)
    with recipe_of(str(folder / "rec.py"), [str(root) for root in roots]) as made:
        return made


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as refused:
        load(folder, text)
    return str(refused.value)


def test_what_recipe_returns(tmp_path: Path) -> None:
    assert load(tmp_path, "def recipe(): return 3") == 3


def test_its_module_is_there_and_marked_while_it_lasts(tmp_path: Path) -> None:
    (tmp_path / "rec.py").write_text("class A: ...\ndef recipe(): return A")
    with recipe_of(str(tmp_path / "rec.py"), []) as made:
        module = sys.modules[made.__module__]
        assert getattr(module, MARK) == str(tmp_path / "rec.py")
        assert module.__file__ == str(tmp_path / "rec.py")
    assert made.__module__ not in sys.modules


def test_a_file_named_like_a_module_that_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "logging.py").write_text("import logging\ndef recipe(): return logging.INFO, __name__")
    with recipe_of(str(tmp_path / "logging.py"), []) as made:
        assert made == (logging.INFO, "recipe_logging")


def test_neighbours_and_roots_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "rec_root_module.py").write_text("value = 1")
    (tmp_path / "rec_neighbour.py").write_text("value = 2")
    text = "import rec_root_module, rec_neighbour\ndef recipe(): return rec_root_module.value + rec_neighbour.value"
    assert load(tmp_path, text, tmp_path / "root") == 3
    assert not {"rec_root_module", "rec_neighbour", "rec"} & set(sys.modules)
    assert not list(tmp_path.rglob("__pycache__"))


EVERYTHING = """\
import logging, os, random, sys
os.environ["LEFT_BEHIND"] = "1"
os.environ.pop("HOME", None)
os.chdir("/")
random.seed(1)
sys.path.insert(0, "/left/behind")
sys.argv.append("left behind")
logging.basicConfig(level=logging.DEBUG)
logging.getLogger().addHandler(logging.StreamHandler())
print("not on standard output")
sys.modules["json"] = None
def recipe():
    os.environ["LEFT_BEHIND_TOO"] = "1"
    return random.random()
"""


@pytest.mark.parametrize("text", [EVERYTHING, EVERYTHING + "    \nraise SystemExit(0)"], ids=["works", "fails"])
def test_nothing_stays_behind(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    root = logging.getLogger()

    def now() -> tuple[Any, ...]:
        return (
            dict(os.environ), os.getcwd(), random.getstate(), sys.path[:], sys.argv[:], root.level, root.handlers[:],
            set(sys.modules), sys.dont_write_bytecode,
        )  # fmt: skip

    before = now()
    try:
        load(tmp_path, text)
    except InputError:
        assert "raise SystemExit" in text
    assert now() == before
    assert sys.modules["json"] is json
    assert capsys.readouterr().out == ""


def test_a_missing_module_at_the_top(tmp_path: Path) -> None:
    said = refusal(tmp_path, "import os\n\nimport not_installed_here.sub\ndef recipe(): ...")
    assert said.startswith(
        f"{tmp_path}/rec.py:3: not_installed_here is imported, which {sys.executable} does not have. "
    )
    assert (
        "Import it inside the function that needs it, or launch the file as a plain script: --entrypoint python" in said
    )


def test_a_missing_module_in_recipe(tmp_path: Path) -> None:
    said = refusal(tmp_path, "def recipe():\n    import not_installed_here")
    assert said.startswith(f"{tmp_path}/rec.py:2: recipe() imports not_installed_here, which ")


def test_a_missing_module_of_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "rec_neighbour.py").write_text("import not_installed_here\n")
    said = refusal(tmp_path, "import rec_neighbour\ndef recipe(): ...")
    assert said.startswith(f"{tmp_path}/rec_neighbour.py:1: not_installed_here is imported, which ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def recipe():\n    return 1 / 0", "rec.py:2: recipe() failed: ZeroDivisionError: division by zero. "),
        ("x = {}\nx['a']\ndef recipe(): ...", "rec.py:2: the recipe file cannot be imported: KeyError: 'a'. "),
        ("def recipe(): ...\nimport sys; sys.exit(3)", "rec.py:2: the recipe file cannot be imported: SystemExit: 3. "),
        ("def recipe(): raise ValueError('two\\nlines')", "rec.py:1: recipe() failed: ValueError: two lines. "),
        ("import json\ndef recipe():\n    json.loads('{')", "rec.py:3: recipe() failed: JSONDecodeError: "),
    ],
)  # fmt: skip
def test_what_fails_is_one_paragraph_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    found = refusal(tmp_path, text)
    assert found.startswith(f"{tmp_path}/{said}")
    assert "\n" not in found


def test_a_mistake_in_a_config_names_its_line(tmp_path: Path) -> None:
    text = "from nemo_launch.buildables.types import Partial\ndef f(a): ...\ndef recipe():\n    return Partial(f, b=1)"
    assert refusal(tmp_path, text).startswith(f"{tmp_path}/rec.py:4: Partial: f takes no b. ")


def test_a_name_that_a_config_does_not_have(tmp_path: Path) -> None:
    text = "from nemo_launch.buildables.types import Partial\ndef f(batch): ...\ndef recipe():\n    Partial(f).bach = 3"
    assert f"{tmp_path}/rec.py:4: recipe() failed: AttributeError: f takes no bach. Did you mean batch?" in refusal(
        tmp_path, text
    )


def test_a_dataclass_of_the_file(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\n"
    text += "def recipe(): return A(3)"
    assert load(tmp_path, text).x == 3


def test_programs_that_it_calls_do_not_print_among_what_was_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "import os\ndef recipe():\n    os.system('echo of a program')\n    os.write(1, b'of the system\\n')\n"
    print("before")
    load(tmp_path, text)
    print("after")
    told = capfd.readouterr()
    assert told.out == "before\nafter\n"
    assert told.err == "of a program\nof the system\n"


def test_standard_output_comes_back_after_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refusal(tmp_path, "def recipe(): raise ValueError")
    os.write(1, b"still there\n")
    assert capfd.readouterr().out == "still there\n"
