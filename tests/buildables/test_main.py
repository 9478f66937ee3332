"""Functions and classes of the launching program run in the job, or are refused; it is never executed twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

DEFINITIONS = """\
import math
from dataclasses import dataclass
import nemo_launch as nl

FACTOR = 3

@dataclass
class Model:
    layers: int

def helper(number):
    return math.floor(number * FACTOR)

def train(model, steps=1):
    print("trained", model.layers, helper(steps), __name__ == "__main__")
"""
LAUNCH = """\
with nl.Experiment("main", executor=nl.LocalExecutor(launcher="none")) as exp:
    exp.add(nl.Partial(train, model=nl.Config(Model, layers=2), steps=4))
    exp.run()
exp.status()
exp.logs()
"""
#: Whoever executes the program writes a line.
COUNT = "open('count', 'a').write('x')\n"


class Program:
    """A program that launches, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir()
        self.env = {**os.environ, "NEMORUN_HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    def __call__(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, *words]
        return subprocess.run(argv, cwd=self.work, env=self.env, capture_output=True, text=True, timeout=120, **more)

    def file(self, text: str, name: str = "launch.py") -> str:
        path = self.work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def executed(self) -> int:
        return len((self.work / "count").read_text())


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


GUARDED = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in LAUNCH.splitlines())


@pytest.mark.parametrize("launch", [LAUNCH, GUARDED], ids=["without a main guard", "with a main guard"])
def test_case_38_a_launch_script(program: Program, launch: str) -> None:
    done = program(program.file(COUNT + DEFINITIONS + launch))
    assert "trained 2 12" in done.stdout, done
    assert program.executed() == 1
    (program.work / "launch.py").unlink()
    after = program("-c", "import nemo_launch as nl; nl.Experiment.from_title('main').status()")
    assert "SUCCEEDED" in after.stdout


def test_a_script_outside_the_work_dir_with_a_neighbour(program: Program) -> None:
    program.file("WORD = 'neighbour'\n", "scripts/nearby_module.py")
    text = DEFINITIONS.replace("import math", "import math, nearby_module").replace('"trained"', "nearby_module.WORD")
    done = program(program.file(text + LAUNCH, "scripts/launch.py"))
    assert "neighbour 2 12" in done.stdout, done


def test_a_class_under_the_main_guard(program: Program) -> None:
    text = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in (DEFINITIONS + LAUNCH).splitlines())
    works_or_is_refused(program(program.file(text)), program)


def works_or_is_refused(done: subprocess.CompletedProcess[str], program: Program) -> None:
    if done.returncode == 0:
        assert "trained 2 12" in done.stdout, done
    else:
        assert "InputError" in done.stderr, done
        assert not program.home.exists()


def test_case_37_python_with_c(program: Program) -> None:
    works_or_is_refused(program("-c", DEFINITIONS + LAUNCH), program)


def test_python_from_standard_input(program: Program) -> None:
    works_or_is_refused(program(input=DEFINITIONS + LAUNCH), program)


def test_case_37_a_notebook(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    for name, value in program.env.items():
        monkeypatch.setenv(name, value)
    cells = [COUNT + DEFINITIONS, "FACTOR = 5", LAUNCH]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(book, timeout=120, resources={"metadata": {"path": str(program.work)}})
    client.execute()
    told = "".join(output.get("text", "") for output in book.cells[-1].outputs)
    assert "trained 2 20" in told, book.cells[-1].outputs
    assert program.executed() == 1
