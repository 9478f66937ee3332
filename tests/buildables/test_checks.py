"""What is found wrong with a config before anything is submitted, and what is let be."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from nemo_launch.buildables import checks
from nemo_launch.buildables.types import Config, Partial
from tests.buildables.things import (
    Colour,
    Fused,
    Model,
    Optimizer,
    Plain,
    make_model,
    only_by_position,
    train,
    train_in_steps,
    train_later,
)

MODEL = Config(Model, layers=1)


def told(root: Any) -> list[str]:
    return [str(problem) for problem in checks.problems(root)]


RIGHT: dict[str, dict[str, Any]] = {
    "nothing but what is required": {},
    "a config of a subclass": {"optimizer": Config(Fused)},
    "an object": {"optimizer": Fused()},
    "a config of a function that returns it": {"model": Config(make_model, layers=1)},
    "None where None is the default": {"optimizer": None},
    "an int for a float": {"optimizer": Config(Optimizer, lr=1)},
    "a path": {"data": Path("x")},
    "a member": {"colour": Colour.BLUE},
    "a list for a sequence": {"sizes": [1, 2]},
    "a tuple of floats": {"optimizer": Config(Optimizer, betas=(1, 2.0))},
    "a dict": {"by_name": {"a": 1}},
    "a function": {"loss": max},
    "a partial for a function": {"loss": Partial(train)},
    "one of a union": {"both": "text"},
    "a type that only type checkers see": {"unknown": object()},
    "no annotation": {"free": object()},
    "a config in a list": {"free": [Config(Model, layers=1)]},
    "a partial that is called with the rest": {"free": Partial(Model)},
    "a bool for an int, as Python has it": {"max_steps": True},
}


@pytest.mark.parametrize("given", RIGHT.values(), ids=RIGHT.keys())
def test_what_is_right(given: dict[str, Any]) -> None:
    assert told(Partial(train, **{"model": MODEL, **given})) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "text for an int": ({"max_steps": "3"}, "max_steps: '3' (str) is given, and train takes int"),
    "a float for an int": ({"max_steps": 1.0}, "max_steps: 1.0 (float) is given, and train takes int"),
    "None": ({"max_steps": None}, "max_steps: None is given, and train takes int"),
    "text for a float": (
        {"optimizer": Config(Optimizer, lr="1")},
        "optimizer.lr: '1' (str) is given, and Optimizer takes float",
    ),
    "text for a path": ({"data": "x"}, "data: 'x' (str) is given, and train takes Path"),
    "an element": ({"sizes": [1, "2"]}, "sizes: [1, '2'] (list) is given, and train takes Sequence[int]"),
    "a tuple too long": (
        {"optimizer": Config(Optimizer, betas=(1, 2, 3))},
        "optimizer.betas: (1, 2, 3) (tuple) is given",
    ),
    "a key": ({"by_name": {1: 1}}, "by_name: {1: 1} (dict) is given, and train takes dict[str, int] or None"),
    "a word that is none of them": (
        {"model": Config(Model, layers=1, act="silu")},
        "model.act: 'silu' (str) is given, and Model takes Literal['gelu', 'relu']",
    ),
    "another class": ({"model": Config(Optimizer)}, "model: a Config of Optimizer is given, and train takes Model"),
    "a partial for an object": ({"model": Partial(Model)}, "model: a Partial of Model is given, and train takes Model"),
    "no function": ({"loss": 3}, "loss: 3 (int) is given, and train takes Callable[..., float] or None"),
    "no member": ({"colour": "RED"}, "colour: 'RED' (str) is given, and train takes Colour"),
    "deep inside": (
        {"free": [{"a": Config(Model, layers="x")}]},
        "free[0].a.layers: 'x' (str) is given, and Model takes int",
    ),
    "a required field": (
        {"free": (1, Config(Model))},
        "free[1].layers: Model needs it, and it is not set. Give it a value: free[1].layers=…",
    ),
    "an async function": ({"free": Config(train_later)}, "free: train_later is an async function"),
    "a class that is none of a dataclass": (
        {"free": Config(Plain, size="1")},
        "free.size: '1' (str) is given, and Plain takes int",
    ),
    "an optional path": (
        {"free": Config(Plain, size=1, path="p")},
        "free.path: 'p' (str) is given, and Plain takes Path or None",
    ),
}


@pytest.mark.parametrize(("given", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong(given: dict[str, Any], said: str) -> None:
    (only,) = told(Partial(train, **{"model": MODEL, **given}))
    assert only.startswith(said)


def test_all_of_it_at_once() -> None:
    assert len(told(Partial(train, max_steps="3", optimizer=Config(Optimizer, lr="1"), free=Config(Model)))) == 4


def test_functions_that_do_nothing_when_they_are_called() -> None:
    assert "is an async function: calling it runs nothing" in told(Partial(train_later))[0]
    assert "is a generator function: calling it runs nothing" in told(Partial(train_in_steps))[0]
    assert "is an async function" in told(Partial(functools.partial(train_later)))[0]
    assert told(Partial(train, model=MODEL, free=Config(train_in_steps))) == [], "an iterator is a good argument"


def test_positional_arguments() -> None:
    assert told(Partial(only_by_position, 1, 2, 3)) == []
    assert told(Partial(only_by_position)) == [
        "size: only_by_position needs it, and it is not set. Give it a value: size=…"
    ]


def test_a_config_that_contains_itself_ends() -> None:
    inner = Config(Optimizer)
    inner.schedule = [inner]
    assert told(Partial(train, model=MODEL, optimizer=inner)) == []
