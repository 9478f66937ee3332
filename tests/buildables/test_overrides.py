"""``key=value`` words: what they set, of which type, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_launch.buildables import overrides
from nemo_launch.buildables.types import Config, Partial
from tests.buildables.things import Colour, Model, Optimizer, anything, only_by_position, train


def recipe() -> Any:
    return Partial(
        train,
        model=Config(Model, layers=1),
        optimizer=Config(Optimizer),
        free={"layers": [Config(Model, layers=1), Config(Model, layers=2)], "a.b": 1, "none": None},
    )


def after(*words: str) -> Any:
    root = recipe()
    assert [str(problem) for problem in overrides.apply(root, words)] == []
    return root


def follow(root: Any, place: str) -> Any:
    return eval(place, {"root": root})


SET: dict[str, tuple[str, str, Any]] = {
    # by annotation
    "int": ("max_steps=40", "root.max_steps", 40),
    "int, as people write it": ("max_steps=1e6", "root.max_steps", 1_000_000),
    "float": ("optimizer.lr=1e-4", "root.optimizer.lr", 1e-4),
    "float from an int": ("optimizer.lr=1", "root.optimizer.lr", 1.0),
    "infinity": ("optimizer.lr=inf", "root.optimizer.lr", math.inf),
    "text that looks like a number": ("optimizer.name=007", "root.optimizer.name", "007"),
    "text that looks like null": ("optimizer.name=null", "root.optimizer.name", "null"),
    "text that looks like a list": ("optimizer.name=[a", "root.optimizer.name", "[a"),
    "no text": ("optimizer.name=", "root.optimizer.name", ""),
    "quotes stay": ('optimizer.name="a"', "root.optimizer.name", '"a"'),
    "a second =": ("optimizer.name=a=b", "root.optimizer.name", "a=b"),
    "one of the words": ("model.act=gelu", "root.model.act", "gelu"),
    "optional": ("model.hidden=64", "root.model.hidden", 64),
    "null": ("model.hidden=null", "root.model.hidden", None),
    "None": ("model.hidden=None", "root.model.hidden", None),
    "null for a default of None": ("optimizer=None", "root.optimizer", None),
    "a path": ("data=/a b/c", "root.data", Path("/a b/c")),
    "a member by name": ("colour=BLUE", "root.colour", Colour.BLUE),
    "a member by value": ("colour=2", "root.colour", Colour.BLUE),
    "a sequence": ("sizes=[1, 2]", "root.sizes", [1, 2]),
    "a tuple": ("optimizer.betas=[0.1, 1]", "root.optimizer.betas", (0.1, 1.0)),
    "a list of texts": ("optimizer.tags=[1, yes, null, 'a b']", "root.optimizer.tags", ["1", "yes", "null", "a b"]),
    "a dict": ("by_name={a: 1, b: 2}", "root.by_name", {"a": 1, "b": 2}),
    "JSON": ('by_name={"a":1}', "root.by_name", {"a": 1}),
    "a number of a union": ("both=3", "root.both", 3),
    "text of a union": ("both=3x", "root.both", "3x"),
    # by the current value
    "an int grows into a float": ("rate=0.5", "root.rate", 0.5),
    "an int stays one": ("rate=2", "root.rate", 2),
    "text stays text": ("label=3", "root.label", "3"),
    "an element of a default dict": ("seen.a=5", "root.seen['a']", 5),
    "a new key": ("seen.other=5", "root.seen['other']", 5),
    # by YAML's rules
    "null without a type": ("unknown=null", "root.unknown", None),
    "bool without a type": ("unknown=true", "root.unknown", True),
    "text without a type": ("unknown=yes", "root.unknown", "yes"),
    "a time is text": ("unknown=12:00:00", "root.unknown", "12:00:00"),
    "a number without a type": ("unknown=1e-3", "root.unknown", 1e-3),
    "a list without a type": ("unknown=[1, a, null, [2.0]]", "root.unknown", [1, "a", None, [2.0]]),
    "a quoted text without a type": ("unknown='[a'", "root.unknown", "[a"),
    "zeros in front": ("unknown=0123", "root.unknown", "0123"),
    # places
    "an element": ("free.layers[1].layers=7", "root.free['layers'][1].layers", 7),
    "an element by name": ("free.layers.0.layers=7", "root.free['layers'][0].layers", 7),
    "from the end": ("free.layers[-1].layers=7", "root.free['layers'][1].layers", 7),
    "a key with a dot": ('free["a.b"]=2', "root.free['a.b']", 2),
    "an element of a tuple": ("optimizer.betas[0]=0.5", "root.optimizer.betas", (0.5, 0.95)),
}


@pytest.mark.parametrize(("word", "place", "value"), SET.values(), ids=SET.keys())
def test_what_is_set(word: str, place: str, value: Any) -> None:
    found = follow(after(word), place)
    assert found == value
    assert type(found) is type(value)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_text_arrives_as_it_is(text: str) -> None:
    root = recipe()
    assert overrides.apply(root, [f"optimizer.name={text}"]) == []
    assert root.optimizer.name == text


def test_the_texts_that_other_launchers_change() -> None:
    for text in (
        "%",
        "@",
        "*",
        "#",
        " # a",
        "=",
        ",",
        "a,b",
        ":",
        "a: b",
        "/",
        "中文",
        "$HOME",
        "`x`",
        "~",
        "\\n",
        "a\nb",
    ):
        assert after(f"optimizer.name={text}").optimizer.name == text
        assert after(f"label={text}x").label == f"{text}x"


REFUSED: dict[str, tuple[str, str]] = {
    "a typo": ("model.leyers=3", "model.leyers: Model takes no leyers. Did you mean layers?"),
    "a typo on the way": ("modle.layers=3", "modle.layers: train takes no modle. Did you mean model?"),
    "no such name": ("model.zzz=3", "model.zzz: Model takes no zzz. It takes layers, act, hidden."),
    "no number": ("max_steps=abc", "max_steps: 'abc' is given, and int is wanted."),
    "half a number": ("max_steps=1.5", "max_steps: '1.5' is given, and int is wanted."),
    "nothing": ("max_steps=", "max_steps: its value is empty, and int is wanted. Is a variable unset?"),
    "none of the words": ("model.act=silu", "model.act: 'silu' is given, and Literal['gelu', 'relu'] is wanted."),
    "a typo in a word": (
        "model.act=relo",
        "model.act: 'relo' is given, and Literal['gelu', 'relu'] is wanted. Did you mean relu?",
    ),
    "a typo in an enum": ("colour=BLEU", "colour: 'BLEU' is given, and Colour is wanted. Did you mean BLUE?"),
    "no member of an enum": ("colour=x", "colour: 'x' is given, and Colour is wanted. There are RED, BLUE."),
    "text for a config": (
        "model=3",
        "model: it is a Config of Model, which no text can stand for. Set its fields: model.layers=…",
    ),
    "null for a config that is needed": ("model=null", "model: it is a Config of Model, which no text can stand for."),
    "below a number": ("max_steps.x=3", "max_steps.x: max_steps is 10 (int), which has no fields."),
    "below nothing": ("loss.x=3", "loss.x: loss is None, which has no fields."),
    "too far": (
        "free.layers[2].layers=1",
        "free.layers[2].layers: free.layers has 2 elements, and none with the number 2.",
    ),
    "a name for a number": ("free.layers.x=1", "free.layers.x: free.layers is a list, and 'x' is no number."),
    "a key nearby": ("free.layerz=1", "free.layerz: free has no key layerz. Did you mean layers?"),
    "a function": (
        "loss=max",
        "loss: Callable[..., float] or None cannot be written on the command line. Set it in the recipe file.",
    ),
    "an element": ("sizes=[1, x]", "sizes: 'x' is given, and int is wanted."),
    "no list": ("sizes=3", "sizes: '3' is given, and Sequence[int] is wanted. A list is written '[a, b]'."),
    "half a list": ("sizes=[1", "sizes: '[1' is no list or dict in YAML or JSON"),
    "a tuple too short": (
        "optimizer.betas=[1]",
        "optimizer.betas: 1 elements are given, and tuple[float, float] is wanted.",
    ),
    "a dict for a list": ("optimizer.tags={a: 1}", "optimizer.tags: a dict is given, and list[str] is wanted."),
    "a colon without a space": ("by_name={a:1}", "by_name: 'a:1' has no space after its colon."),
    "a key twice": ("by_name={a: 1, a: 2}", "by_name: the key 'a' is given twice."),
    "no override": ("fast", "'fast' is no NAME=VALUE, and a recipe file takes no other words."),
    "a path": ("a/b.txt", "'a/b.txt' is no NAME=VALUE, and a recipe file takes no other words."),
    "a flag": ("--lr=3", "'--lr=3' is no NAME=VALUE, and a recipe file takes no other words."),
    "no name": ("=3", "'=3' is no NAME=VALUE, and a recipe file takes no other words."),
    "a broken place": ("model[layers=3", "'model[layers=3' is no NAME=VALUE, and a recipe file takes no other words."),
}


@pytest.mark.parametrize(("word", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(word: str, said: str) -> None:
    root = recipe()
    (problem,) = overrides.apply(root, [word])
    assert str(problem).startswith(said)
    assert root == recipe(), "nothing was set"


def test_all_problems_at_once_and_the_rest_is_set() -> None:
    root = recipe()
    assert len(overrides.apply(root, ["modle.x=1", "max_steps=3", "model.act=x", "y"])) == 3
    assert root.max_steps == 3


def test_the_same_field_twice() -> None:
    (problem,) = overrides.apply(recipe(), ["max_steps=3", "max_steps=4"])
    assert str(problem) == "max_steps: it is given twice, with different values. Keep one."
    assert overrides.apply(recipe(), ["max_steps=3", "max_steps=3"]) == []


def test_a_shared_config_stays_shared() -> None:
    shared = Config(Model, layers=1)
    root = Partial(train, model=shared, free=[shared])
    overrides.apply(root, ["model.layers=5"])
    assert root.free[0].layers == 5


def test_defaults_of_the_function_stay_as_they_are() -> None:
    after("seen.a=5")
    assert recipe().seen == {"a": 1}


def test_any_name_and_positional_arguments() -> None:
    root = Partial(anything, model=Config(only_by_position, 1, 2, 3))
    assert overrides.apply(root, ["lr=3", "model.size=4", "model[2]=9"]) == []
    assert (root.lr, root.model[:]) == (3, [4, 2, 9])
