"""Functions and classes that no node could import travel as text: from a script, a notebook, a recipe file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.buildables import node
from tests.buildables.launching import launch

SCRIPT = '''\
"""A launch script without a main guard (it trains when it is executed again)."""
import collections
import dataclasses
import enum
import functools
import logging
import os
import unused_here_and_absent_there
import xml
import xml.etree.ElementTree
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Optional, TypeVar

import fiddle as fdl
import nemo_launch as nl
from leave import leave

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
LIMIT = 3
TABLE = {"a": [1, (2, 3)], 5: Path("/x")}
LOG = logging.getLogger("job")
Point = collections.namedtuple("Point", "x y")
LOCK = __import__("threading").Lock()


class Color(enum.Enum):
    RED = 1
    BLUE = 2


DEFAULT = Color.BLUE


@dataclasses.dataclass
class Options:
    lr: float = 0.1
    color: Color = DEFAULT
    more: list = dataclasses.field(default_factory=list)


class Base(Generic[T]):
    def hello(self):
        return f"hello from {type(self).__name__}"


class Model(Base):
    """A text
that is not indented."""

    def __init__(self, n: "torch.Tensor", p: Optional[Point] = None):
        super().__init__()
        self.n, self.p = n, p or Point(1, 2)

    @classmethod
    def small(cls, **rest):
        return cls(1, **rest)


def even(n: int) -> bool:
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return False if n == 0 else even(n - 1)


def loud(function):
    @functools.wraps(function)
    def inner(*args, **named):
        print("loud")
        return function(*args, **named)
    return inner


@loud
def train(
    model: Model,
    options: nl.Script,
    fail: bool = False,
) -> "Optional[nl.Task]":
    import pickle, multiprocessing
    print(model.hello(), model.n, model.p, options.color.name, options.more, LIMIT, TABLE, even(4), LOG.name)
    print(xml.etree.ElementTree.fromstring("<a/>").tag, "nemo_launch" in __import__("sys").modules)
    again = pickle.loads(pickle.dumps([model, options, Color.RED]))
    assert again[1] == options and again[2] is Color.RED
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(twice, [model]))
    if fail:
        broken(3)


def twice(model):
    return model.hello() * 2


def broken(x):
    y = x + 1
    raise KeyError(f"bad {y}")


print("THE SCRIPT RUNS")
model = fdl.Config(Model.small, p=fdl.Config(Point, 7, y=8))
leave(fdl.Partial(train, model, fdl.Config(Options, lr=Color.RED), fail="--fail" in os.environ.get("HOW", "")))
'''


def ends_of(pythons: list[str]) -> list[str]:
    """The oldest and the newest, and the one that runs this."""
    return list(dict.fromkeys([pythons[0], pythons[-1], sys.executable]))


@pytest.fixture(scope="module")
def absent(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("absent")
    (folder / "unused_here_and_absent_there.py").write_text("")
    return str(folder)


def test_a_script_without_main_guard_is_never_executed_on_the_node(tmp_path: Path, absent: str) -> None:
    launched = launch(tmp_path, SCRIPT, path=absent)
    assert launched.out.splitlines()[0] == "THE SCRIPT RUNS" and "copied from" in launched.out, launched.err
    for python in ends_of(node.pythons()):
        done = launched.run(python)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "loud",
            "hello from Model 1 Point(x=7, y=8) BLUE [] 3 {'a': [1, (2, 3)], 5: PosixPath('/x')} True job",
            "a False",
            "['hello from Modelhello from Model']",
        ]


def test_a_traceback_shows_the_users_own_file_and_lines(
    tmp_path: Path, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOW", "--fail")
    launched = launch(tmp_path, SCRIPT, path=absent)
    file = tmp_path / "job.py"
    file.write_text("# another file by now\n" * 200)
    done = launched.run()
    line = SCRIPT[: SCRIPT.index("    raise KeyError")].count("\n") + 1
    lines = done.stderr.splitlines()
    assert (
        done.returncode == 1 and lines[0] == "Traceback (most recent call last):" and lines[-1] == "KeyError: 'bad 4'"
    )
    assert f'  File "{file}", line {line}, in broken' in lines and '    raise KeyError(f"bad {y}")' in lines
    assert all(str(file) in one for one in lines if one.startswith("  File")), "nobody needs to see our own frames"


NOTEBOOK = """\
import math
SCALE = 2
class Data:
    size: int = 3
-----
def helper(x):
    return math.sqrt(x) * SCALE
def train(data, x):
    import inspect
    print(helper(x), data.size, type(data).__name__, inspect.getsource(helper))
    raise SystemExit(7)
-----
def helper(x):
    return math.sqrt(x) * SCALE + 1
-----
import fiddle as fdl
from leave import leave
SCALE = 3
leave(fdl.Partial(train, fdl.Config(Data), 16))
"""


def test_a_notebooks_functions_travel(tmp_path: Path) -> None:
    done = launch(tmp_path, NOTEBOOK, how="notebook").run()
    assert done.stdout == "13.0 3 Data def helper(x):\n    return math.sqrt(x) * SCALE + 1\n\n"
    assert done.returncode == 7 and done.stderr == ""


def test_a_notebook_that_fails_names_the_cell(tmp_path: Path) -> None:
    launched = launch(tmp_path, NOTEBOOK.replace("SystemExit(7)", "ValueError(7)"), how="notebook")
    assert 'File "<cell 1>", line 6, in train\n    raise ValueError(7)' in launched.run().stderr


def test_a_program_given_as_text_runs_or_is_refused(tmp_path: Path) -> None:
    text = (
        "import fiddle as fdl\nfrom leave import leave\n"
        "def train(x): print('trained', x)\nleave(fdl.Partial(train, 3))\n"
    )
    launched = launch(tmp_path, text, how="-c")
    if sys.version_info >= (3, 13):  # it keeps the text
        assert launched.run().stdout == "trained 3\n"
    else:
        assert launched.code == 1 and launched.err.startswith("recipe: the source of train cannot be read")
        assert "Write it into a file" in launched.err and not launched.folder.exists()


HEAD = "import fiddle as fdl, functools, threading, os, sys\nfrom leave import leave\n"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("L = threading.Lock()\ndef train(): L\n", "recipe (train uses L)", "lock"),
        ("f = lambda: 0\ndef train(): f()\n", "recipe (train uses f)", "lambda"),
        ("def make():\n    def f(): pass\n    return f\ntrain = make()\n", "recipe", "inside a function"),
        (
            "def make(x):\n    def f(): return x\n    return f\nf = make(1)\ndef train(): f()\n",
            "recipe (train uses f)",
            "",
        ),
        ("class C: pass\nc = C()\ndef train(): c\n", "recipe (train uses c)", "cannot travel"),
        ("c = fdl.Config(dict)\ndef train(): c\n", "recipe (train uses c)", "config"),
        ("def g(): h()\ndef h(): L\nL = open('/dev/null')\ndef train(): g()\n", "recipe (h uses L)", "TextIOWrapper"),
        ("import nemo_launch as nl\ndef train(): nl.Script\n", "recipe (train uses nl)", "part of the launcher"),
        ("X = 1\ndef train(x=X): pass\nX = 2\n", "recipe (train uses X)", "more than once"),
        (
            "X = 1\nclass train:\n    x = X\ndef change():\n    global X\n    X = 2\nchange()\n",
            "recipe (train uses X)",
            "",
        ),
        ("def train(): pass\nold = train\ndef train(): pass\ntrain = old\n", None, ""),
        ("def train(): pass\nold = train\ndef train(): 1\nnew, train = train, old\n", "recipe", None),
        ("train = type('train', (), {})\n", None, ""),
        ("exec('def train(): pass')\n", "recipe", "cannot be read"),
        ("@functools.singledispatch\ndef train(): pass\n", "recipe", "singledispatch"),
        ("class train:\n    def f(self): 1\ndef g(self): 2\ntrain.f = g\n", "recipe", "was changed since"),
        ("class train:\n    x = 1\ntrain.x = 2\n", "recipe", "was changed since"),
        ("def train(): pass\ntrain.x = 2\n", "recipe", "attributes of functions"),
        ("def train(): globals()\n", "recipe", "globals()"),
        ("def train():\n    import __main__\n", "recipe", "another program"),
        (
            "R = {}\ndef r(f): R[1] = f; return f\n@r\ndef a(): 1\ndef train(): R[1]()\n",
            "recipe (train uses R)[1]",
            "needs",
        ),
        ("R = {}\ndef r(f): R[1] = f; return f\n@r\ndef train(): R\n", "recipe (r uses R)[1]", "needs"),
        ("class Meta(type): pass\ndef train(): pass\ntrain = Meta('train', (), {'run': lambda self: 0})\n", None, ""),
    ],
)
def test_what_cannot_travel_as_text_is_refused(tmp_path: Path, text: str, where: str | None, what: str | None) -> None:
    launched = launch(tmp_path, HEAD + text + "leave(fdl.Partial(train))\n")
    if where is None or what is None:  # it may work; what is sure is that it does not fail on the node
        assert launched.code == 1 or launched.run().returncode == 0, launched.run().stderr
        return
    assert launched.code == 1 and not launched.folder.exists(), launched.err
    assert launched.err.startswith(f"{where}: ") and what in launched.err and "Traceback" not in launched.err
    assert len(launched.err.splitlines()) == 1


def test_a_file_that_changed_since_it_was_loaded_is_refused(tmp_path: Path) -> None:
    text = "def train():\n    return 1 + 2\nopen(__file__, 'a').close()\n"
    text += "changed = open(__file__).read().replace('1 + 2', '1 - 2')\nopen(__file__, 'w').write(changed)\n"
    launched = launch(tmp_path, HEAD + text + "leave(fdl.Partial(train))\n")
    assert launched.code == 1 and "train is not what" in launched.err and "was changed since" in launched.err


def test_what_lies_under_a_main_guard_travels_too(tmp_path: Path) -> None:
    text = (
        'if __name__ == "__main__":\n    class Model:\n        text = """one\n  two"""\n'
        "    try:\n        def train(model):\n            print(repr(model.text), sys.path[-1] != '', __name__)\n"
        "    except ValueError:\n        pass\n    leave(fdl.Partial(train, fdl.Config(Model)))\n"
    )
    done = launch(tmp_path, HEAD + text).run()
    assert done.stdout == "'one\\n  two' True nemo_launch_job\n", done.stderr


def test_annotations_that_the_node_has_no_names_for_do_not_break(tmp_path: Path) -> None:
    text = (
        "import nemo_launch as nl, threading\nLOCK = threading.Lock()\nfrom typing import Dict, List\n"
        "def train(\n    a: Dict[\n        str, nl.Script\n    ],  # é\n    é: int, b: LOCK = 3,\n"
        ") -> List[\n    nl.Task\n]:\n"
        "    x: nl.Script = 3\n    print(train.__annotations__, sys._getframe().f_lineno)\n"
    )
    done = launch(tmp_path, HEAD + text + "leave(fdl.Partial(train, 1, é=2))\n").run()
    assert done.stdout == (
        "{'a': 'Dict[ str, nl.Script ]', 'é': <class 'int'>, 'b': 'LOCK', 'return': 'List[ nl.Task ]'} 15\n"
    ), done.stderr


MANY = """\
import asyncio, contextlib, dataclasses, enum
from abc import ABC, abstractmethod
from os.path import *
from typing import NamedTuple
try:
    import not_there
except ImportError:
    not_there = None
SHARED, COUNT = [], 0
def helper(self): return "helped"
class Abstract(ABC):
    __hidden = 3
    helper = helper
    @abstractmethod
    def f(self): ...
    @property
    def hidden(self): return self.__hidden
class Meta(type):
    def __new__(cls, name, bases, body): return super().__new__(cls, name, bases, {**body, "z": 9})
class Real(Abstract):
    __slots__ = ("q",)
    class Inner(metaclass=Meta): v = 1
    def __init__(self): super().__init__(); self.q = self.Inner.z
    def f(self): return self.helper()
class Row(NamedTuple):
    x: int
    y: int = 2
class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()
BOTH = Flag.A | Flag.B
@dataclasses.dataclass(frozen=True)
class Tree:
    left: "Tree" = None
    row: Row = dataclasses.field(default_factory=lambda: Row(5))
@functools.lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
@contextlib.contextmanager
def context():
    yield 4
async def later(): return [x async for x in steps()]
async def steps():
    for x in range(2): yield x
def count():
    global COUNT
    COUNT += 1
def print_(*args, end=SHARED): print(*args, end is SHARED)
SHARED.append(1)
if sys.platform != "none":
    def train(real, row, flag, tree):
        count(), count()
        double = lambda x: helper(None) * x
        with context() as four:
            print_(real.f(), real.hidden, real.q, row, flag is BOTH, tree, fib(20), four, COUNT, not_there)
        print_(asyncio.run(later()), join("a", "b"), [double(x) for x in (1, 2)], SHARED)
else:
    def train(): pass
leave(fdl.Partial(train, fdl.Config(Real), Row(1), BOTH, fdl.Config(Tree, fdl.Config(Tree))))
"""


def test_what_definitions_look_like_in_practice(tmp_path: Path) -> None:
    done = launch(tmp_path, HEAD + MANY).run()
    tree = "Tree(left=Tree(left=None, row=Row(x=5, y=2)), row=Row(x=5, y=2))"
    assert done.stdout.splitlines() == [
        f"helped 3 9 Row(x=1, y=2) True {tree} 6765 4 2 None True",
        "[0, 1] a/b ['helped', 'helpedhelped'] [1] True",
    ], done.stderr


def test_a_launchers_decorators_stay_here(tmp_path: Path) -> None:
    text = (
        "import fiddle.experimental.auto_config as ac\n"
        "@functools.lru_cache\n@ac.auto_config(\n    experimental_allow_control_flow=False,\n)\n"
        "def model():\n    return dict(a=1)\n"
        "def train(): print(model(), model.cache_info().misses)\n"
    )
    done = launch(tmp_path, HEAD + text + "leave(fdl.Partial(train))\n").run()
    assert done.stdout == "{'a': 1} 1\n", done.stderr


def test_a_module_of_the_work_dir_that_imports_a_launcher_travels_as_text(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "plain.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "root" / "steps.py").write_text(
        "import os\nimport nemo_launch as nl\nfrom plain import double\n"
        "def train(x):\n    print(double(x), os.path.basename(os.path.dirname(__file__)))\n"
        "def recipe():\n    return nl.Partial(train, 2)\n"
    )
    root = str(tmp_path / "root")
    text = f"sys.path.insert(0, {root!r})\nimport steps, plain\n"
    text += f"leave(fdl.Partial(steps.train, fdl.Config(plain.double, 2)), [{root!r}])\n"
    launched = launch(tmp_path, HEAD + text)
    (tmp_path / "copy").mkdir()
    for name in ("plain.py", "steps.py"):
        (tmp_path / "root" / name).rename(tmp_path / "copy" / name)
    assert launched.run(roots=str(tmp_path / "copy")).stdout == "8 copy\n"


def test_what_the_node_lacks_is_told_in_one_paragraph(tmp_path: Path, absent: str) -> None:
    text = "import unused_here_and_absent_there as there\ndef train(x): there\n"
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "inner.py").write_text("import unused_here_and_absent_there\ndef f(): pass\n")
    root = str(tmp_path / "root")
    lines = f"sys.path.insert(0, {root!r})\nimport inner\nleave(fdl.Partial(train, [inner.f]), {[root, absent]!r})\n"
    done = launch(tmp_path, HEAD + text + lines, path=absent).run(roots=root)
    told = [line for line in done.stderr.splitlines() if line.startswith("ImportError")]
    assert done.returncode == 1 and len(told) == 1 and done.stderr.splitlines()[-1] == told[0]
    assert "module unused_here_and_absent_there is not here" in told[0] and sys.executable in told[0]
    assert "Traceback" not in done.stderr and "train uses there" in told[0]


def test_a_newer_pythons_syntax_is_told(tmp_path: Path) -> None:
    old = next((python for python in node.pythons() if "/3.8." in python or "/3.9." in python), None)
    if old is None:
        pytest.skip("no old Python here")
    text = "def train(x):\n    match x:\n        case 1:\n            print('one')\nleave(fdl.Partial(train, 1))\n"
    launched = launch(tmp_path, HEAD + text)
    done = launched.run(old)
    assert done.returncode == 1 and "is for another version of Python" in done.stderr and old in done.stderr
    assert launched.run().stdout == "one\n"


def test_signals_and_exit_codes_are_a_scripts_own(tmp_path: Path) -> None:
    for body, code in [("sys.exit('bye')", 1), ("os.kill(os.getpid(), 15)", -15), ("os.kill(os.getpid(), 2)", -2)]:
        launched = launch(tmp_path / str(code), HEAD + f"def train():\n    {body}\nleave(fdl.Partial(train))\n")
        for python in ends_of(node.pythons()):
            done = launched.run(python)
            assert done.returncode == code, (body, done)
    failing = HEAD + "def f(x): return 1 / x\ndef train(x): pass\nleave(fdl.Partial(train, [fdl.Config(f, 0)]))\n"
    done = launch(tmp_path / "config", failing).run()
    assert done.returncode == 1 and "nemo_launch: failed while building x[0]: f" in done.stderr.splitlines()[0]
