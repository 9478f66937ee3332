"""A graph builds on the node exactly what fiddle builds here; what cannot is refused, with its path."""

from __future__ import annotations

import collections
import datetime
import functools
import json
import math
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import fiddle as fdl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nemo_launch.buildables.encode import Encoded, encode
from nemo_launch.errors import InputError
from tests.buildables import node

parts = node.shared("graph_parts")
describe = node.shared("describe").describe


class NemoRunConfig(fdl.Config):  # type: ignore[misc]
    """NeMo-Run's Config is a plain subclass, too."""


class NemoRunPartial(fdl.Partial):  # type: ignore[misc]
    """And so is its Partial."""


class Label(fdl.Tag):  # type: ignore[misc]
    """For tagged values."""


def lowered(value: Any) -> Encoded:
    """A recipe that returns what it is given."""
    return encode(fdl.Partial(parts.same, value), [node.SHARED])


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with node.server(lowered(1).files, tmp_path_factory.mktemp("node")) as process:
        yield process


FUNCTIONS = [parts.Thing, parts.Heir, parts.Data, parts.plain, parts.wrapped, parts.Thing.made, parts.Heir.made]
FUNCTIONS += [parts.Thing.still, parts.Thing.Inner, dict, parts.same]
KEYS = st.one_of(
    st.text(max_size=4), st.integers(), st.booleans(), st.floats(), st.none(), st.binary(max_size=3),
    st.tuples(st.integers(), st.text(max_size=2)), st.sampled_from(parts.Color),
)  # fmt: skip
ZONES = st.timedeltas(min_value=datetime.timedelta(hours=-23), max_value=datetime.timedelta(hours=23)).map(
    datetime.timezone
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**50), 10**50), st.floats(), st.complex_numbers(),
    st.text(max_size=8), st.text(alphabet=st.characters(), max_size=4), st.binary(max_size=8),
    st.binary(max_size=4).map(bytearray), st.sampled_from([..., NotImplemented, -0.0, 10**5000, -(2**70)]),
    st.sampled_from(parts.Color), st.integers(0, 15).map(parts.Flags),
    st.sampled_from([*FUNCTIONS, parts.counter, math, int, len, math.sqrt, dict.fromkeys, collections.OrderedDict]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6).map(pathlib.Path),
    st.just(pathlib.PurePosixPath("/a/../b")), st.just(pathlib.PureWindowsPath("c:\\x")),
    st.timedeltas(), st.dates(), st.datetimes(timezones=st.one_of(st.none(), ZONES)), st.times(), ZONES,
    st.builds(range, st.integers(0, 9), st.integers(0, 99), st.integers(1, 9)),
    st.builds(slice, st.none() | st.integers(), st.integers(), st.none()),
    st.decimals(), st.fractions(), st.uuids(), st.sampled_from([re.compile("a+", re.I), re.compile(b"b")]),
    st.frozensets(KEYS, max_size=4), st.sets(st.integers() | st.text(max_size=3), max_size=4),
    st.dictionaries(KEYS, st.integers(), max_size=3).map(collections.OrderedDict),
    st.lists(st.integers(), max_size=3).map(collections.deque),
    st.builds(functools.partial, st.sampled_from([parts.plain, parts.Thing]), st.integers(), b=st.lists(st.text())),
)  # fmt: skip


def contained(kind: int, values: list[Any], keys: list[Any]) -> Any:
    """A container of one of five kinds."""
    if kind == 0:
        return values
    if kind == 1:
        return tuple(values)
    if kind == 2:
        return parts.Pair(*(values + [None, 1])[:2])
    items = zip(keys, values, strict=True)
    return dict(items) if kind == 3 else collections.defaultdict(list, items)


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    """A value made bottom up: every part may be used again, so that parts are shared in every way."""
    made: list[Any] = [draw(LEAVES)]
    factories: set[int] = set()  # ids of ArgFactories, and of containers that hold one

    def some(many: int = 3, *, in_partial: bool = False) -> list[Any]:
        usable = [part for part in made if in_partial or id(part) not in factories]
        return draw(st.lists(st.one_of(st.sampled_from(usable), LEAVES) if usable else LEAVES, max_size=many))

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.integers(0, 11))
        if kind <= 4:
            values = some(in_partial=True)
            keys = draw(st.lists(KEYS, min_size=len(values), max_size=len(values)))
            one: Any = contained(kind, values, keys)
            if any(id(value) in factories for value in values):
                factories.add(id(one))
        elif kind == 5:
            one = Label.new(draw(st.sampled_from([part for part in made if id(part) not in factories] or [1])))
        else:
            cls = [fdl.Config, NemoRunConfig, fdl.Config, fdl.Partial, NemoRunPartial, fdl.ArgFactory][kind - 6]
            values = some(5, in_partial=kind >= 9)
            if draw(st.booleans()):
                one = cls(parts.positional, *values[:1] or [0], *values[1:], **draw(
                    st.fixed_dictionaries({}, optional={"d": st.sampled_from(some(2) or [1]), "é k": st.just(1)})
                ))  # fmt: skip
            else:
                names = [["x", "y"], ["a", "b"], ["a"]]
                function = draw(st.sampled_from([parts.Data, parts.plain, parts.Thing, parts.wrapped, parts.Heir.made]))
                given = names[0] if function is parts.Data else names[2] if function is parts.Heir.made else names[1]
                one = cls(function, **dict(zip(given, values, strict=False)))
            if cls is fdl.ArgFactory:
                factories.add(id(one))
        made.append(one)
    return list(draw(st.permutations(made)))


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=graphs())
def test_the_node_builds_what_fiddle_builds(value: Any, bare: subprocess.Popen[str]) -> None:
    recipe = fdl.Partial(parts.same, value)
    try:
        here = json.loads(describe(fdl.build(recipe)))
    except Exception as error:  # a function may dislike what it gets, here and there
        here = ["failed", type(error).__name__]
    files = encode(recipe, [node.SHARED]).files
    there = json.loads(node.ask(bare, files["graph.json"]))
    assert there[:2] == here[:2]
    assert there == here or here[0] == "failed"


def refused(value: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(InputError) as error:
        lowered(value)
    return [(problem.where, problem.what, problem.fix) for problem in error.value.problems]


def made_here() -> Callable[[], None]:
    """A function that no name leads to."""

    def inner() -> None:
        return None

    return inner


class Number(int):
    """A subclass of a scalar."""


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (lambda: 0, "lambda"),
        (made_here(), "made_here.<locals>.inner is defined inside a function"),
        (parts.Thing().made, None),
        (threading.Thread(target=print).start, "method of an object"),
        ((x for x in "abc"), "generator"),
        (threading.Lock(), "lock"),
        (object(), "object"),
        ("".join, "method of an object"),
        (list[int], "type hint"),
        (parts.Thing(), "Thing"),
        (Number(3), "Number"),
        (fdl.NO_VALUE, "no value"),
        (Label.new(), "Label"),
        (collections.OrderedDict(a=fdl.Config(parts.Thing)), "never built"),
        (functools.partial(parts.plain, fdl.Config(parts.Thing)), "never built"),
        (fdl.Config(parts.plain, a=fdl.ArgFactory(list)), "ArgFactory"),
        (fdl.Config(parts.plain, a=[fdl.ArgFactory(list)]), "ArgFactory"),
        (made_here, "neither installed nor below the work dir"),
    ],
)
def test_what_cannot_travel_is_refused_with_its_path(value: Any, says: str | None) -> None:
    if says is None:  # a class method reached through an object is a method of the class
        lowered({"deep": [value]})
        return
    ((where, what, fix),) = refused({"deep": [1, value]})
    assert where.startswith("a.deep[1]") and says in what and fix


def test_names_of_torch_and_numpy() -> None:
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    from nemo_launch.runner import build

    relu, gelu = torch.relu, torch.nn.functional.gelu  # both say that they come from nowhere
    values = [torch.bfloat16, torch.strided, torch.device("cuda:1"), torch.Size([1, 2]), relu, gelu, torch.Tensor.add]
    values += [torch.optim.AdamW, numpy.add, numpy.float32, numpy.dtype("int8"), numpy.dtype("U3"), numpy.float32(1.5)]
    values += [numpy.bool_(True), type(None), str.upper, torch.nn.functional]
    made = build.build(json.loads(lowered(values).files["graph.json"]))()
    assert made == values and list(map(type, made)) == list(map(type, values))
    for bad in (torch.ones(1), numpy.ones(1), torch.nn.Linear(1, 1), numpy.dtype([("a", int)])):
        assert refused([bad])[0][0] == "a[0]"


def test_all_problems_are_told_at_once() -> None:
    found = refused({"a b": lambda: 0, "c": [open], 3: {"x": object(), "y": (object(),)}})
    assert [where for where, _, _ in found] == ['a["a b"]', "a[3].x", "a[3].y[0]"]


def test_a_config_that_contains_itself_is_refused() -> None:
    config = fdl.Config(parts.Thing)
    config.a = [config]
    loop: list[Any] = []
    loop.append(loop)
    assert [where for where, _, _ in refused([config, loop])] == ["a[0].a[0]", "a[1][0]"]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "deeply" in refused(deep)[0][1]


def test_keys_that_look_alike_stay_apart() -> None:
    keys = {1: "int", "1": "str", 1.5: "float", "1.5": "str", None: "none", "None": "str", b"1": "bytes", (1,): "t"}
    graph = json.loads(lowered(keys).files["graph.json"])
    assert len(next(entry for entry in graph["nodes"] if entry[0] == "dict")[1]) == len(keys)


def test_a_config_is_no_recipe() -> None:
    with pytest.raises(InputError, match="not called"):
        encode(fdl.Config(parts.plain), [])
    with pytest.raises(InputError, match="no recipe"):
        encode(parts.plain, [])


def test_equal_graphs_give_equal_bytes() -> None:
    code = (
        "import sys, hashlib; sys.path[:0] = sys.argv[1:3]; import graph_parts as p, fiddle as fdl\n"
        "from nemo_launch.buildables.encode import encode\n"
        "e = encode(fdl.Partial(p.plain, a={'x', 'y', 'z', 'abc', p.Color.RED, p.plain}), [sys.argv[1]])\n"
        "print(hashlib.sha256(repr(sorted(e.files.items())).encode()).hexdigest())"
    )
    roots = [node.SHARED, str(pathlib.Path(__file__).parents[2])]
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, *roots],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert runs[0] == runs[1]
