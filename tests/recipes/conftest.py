"""What the tests of the recipes share."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.recipes.ranks import RECIPES, Ranks, start


class StartRanks(Protocol):
    def __call__(
        self, recipe: str, *words: object, folder: str = "task", ranks: int = 1, env: dict[str, str] | None = None
    ) -> Ranks: ...


@pytest.fixture(autouse=True)
def recipes_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes import their neighbours as `trainer.…`."""
    monkeypatch.syspath_prepend(str(RECIPES))


@pytest.fixture
def torch_is_here() -> None:
    if not (find_spec("torch") and find_spec("transformers")):
        pytest.skip("needs torch and transformers: pip install -e .[torch]")


@pytest.fixture
def start_ranks(tmp_path: Path, torch_is_here: None) -> Iterator[StartRanks]:
    """Starts ranks of a recipe below tmp_path; what still runs at the end of the test is killed."""
    started: list[Ranks] = []

    def start_one(
        recipe: str, *words: object, folder: str = "task", ranks: int = 1, env: dict[str, str] | None = None
    ) -> Ranks:
        started.append(start(recipe, words, tmp_path / folder, ranks, env or {}))
        return started[-1]

    yield start_one
    for run in started:
        run.signal(signal.SIGKILL)
        run.wait()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with a little text."""
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"{n} quick brown foxes jump over {n * n} lazy dogs\n" for n in range(200)))
    return folder


def losses(folder: Path) -> dict[int, float]:
    """The losses of the metrics file by step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found = {line["step"]: line["loss"] for line in lines}
    assert len(found) == len(lines), "a step that is there twice"
    return found


def checkpoints(folder: Path) -> list[str]:
    """Everything in the folder of the checkpoints, by name."""
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def progress(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says about itself."""
    found: dict[str, Any] = json.loads((checkpoint / "progress.json").read_text())
    return found
