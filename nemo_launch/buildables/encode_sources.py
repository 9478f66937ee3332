"""Functions and classes that no node could import, from ``__main__``, a notebook or a recipe file: they travel as text.

With them travel the names of their module that they use: other functions and classes as text, imports as imports,
everything else as the value that it has now. The file itself is never executed on the node.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import fiddle as fdl

from nemo_launch.buildables import source_text, source_uses
from nemo_launch.buildables.encode_names import LAUNCHERS, Refused, claimed, find, lies_below, refusal
from nemo_launch.errors import Problem

if TYPE_CHECKING:
    from nemo_launch.buildables.encode import Graph

_STUB = '''"""What a recipe needs of %s, as it was when it was launched; the text is in the .json beside this file."""

__import__("nemo_launch_node.sources", fromlist=["load"]).load(globals())
'''
_ORDER = "Move them into a module of the work dir, and import it."
#: What every module has, or gets where it is loaded.
_OF_MODULES = frozenset(
    ["__name__", "__file__", "__builtins__", "__package__", "__spec__", "__loader__", "__annotations__"]
)


class Sources:
    """All that travels as text, by the module that it comes from.

    Args:
        new_graph: makes the graph of a module's values; it adds to the given nodes.
        problems: gets what cannot travel.
        roots: as of ``Names``.
    """

    def __init__(self, new_graph: Callable[[], Graph], problems: list[Problem], roots: list[str]) -> None:
        self._new_graph, self.problems, self.roots = new_graph, problems, roots
        self._modules: dict[str, _Module] = {}

    def name(self, value: Any, path: str) -> str:
        """The name that an object of such a module has on the node; its text, and what it uses, will be there.

        Raises:
            Refused: it cannot travel as text.
        """
        module, qualname = claimed(value)
        top = qualname.partition(".")[0]
        if not find(module, qualname, value):  # functools.wraps gives a function the name of another one
            names = vars(sys.modules[module])
            qualname = top = next((name for name, one in names.items() if one is value), "")
        if not top or not _defined_in(sys.modules[module], top, vars(sys.modules[module])[top]):
            raise refusal(value, *claimed(value))
        home = self._of(module)
        home.hold(top, path)
        if home.is_open(top):
            what = f"it holds {top}, which is not there yet: what {top} needs is needed to make it"
            raise Refused(what, _ORDER)
        return f"{home.name}:{qualname}"

    def _of(self, module: str) -> _Module:
        if module not in self._modules:
            real = sys.modules[module]
            file = getattr(real, "__file__", None)
            stem = os.path.splitext(os.path.basename(file))[0] if isinstance(file, str) else "notebook"
            taken = {one.name for one in self._modules.values()}
            name = "nemo_launch_" + re.sub(r"\W", "_", stem, flags=re.ASCII)
            while name in taken:
                name += "_"
            self._modules[module] = _Module(self, real, name, self._new_graph())
        return self._modules[module]

    def files(self) -> dict[str, bytes]:
        """The modules, and the texts beside them."""
        made = {}
        for one in self._modules.values():
            made[f"sources/{one.name}.py"] = (_STUB % ascii(one.where)[1:-1].replace('"', "'")).encode()
            made[f"sources/{one.name}.json"] = one.text().encode()
        return made

    def notes(self) -> list[str]:
        """What travels as text, a line for each file."""
        return [f"copied from {one.where}: {', '.join(one.defined)}" for one in self._modules.values() if one.defined]


class _Module:
    """What travels of one module."""

    def __init__(self, sources: Sources, module: types.ModuleType, name: str, graph: Graph) -> None:
        self.sources, self.module, self.name, self.graph = sources, module, name, graph
        self.steps: list[list[Any]] = []
        self.defined: list[str] = []
        self._held: dict[str, bool] = {}
        self._open: set[str] = set()
        self._needs: dict[str, list[str]] = {}
        graph.nodes = _Steps(self.steps)
        file = getattr(module, "__file__", None)
        self.file = os.path.abspath(file) if isinstance(file, str) else ""

    @property
    def where(self) -> str:
        """Where its text comes from, for people."""
        return self.file or "the notebook"

    def text(self) -> str:
        """The steps as JSON, one a line."""
        steps = ",\n".join(json.dumps(step, allow_nan=False) for step in self.steps)
        below = lies_below(self.file, self.sources.roots) if self.file else ""
        return f'{{"file": {json.dumps(self.file)}, "below": {json.dumps(below)}, "steps": [\n{steps}\n]}}\n'

    def hold(self, name: str, path: str) -> None:
        """Bring a name of the module along. Problems are added to ``sources``."""
        if name in self._held or name in _OF_MODULES or name not in vars(self.module):
            return
        self._held[name] = True
        self._open.add(name)
        value = vars(self.module)[name]
        try:
            self._hold(name, value, path)
        except Refused as refused:
            self.sources.problems.append(Problem(refused.what, path, refused.fix))
        self._open.discard(name)

    def is_open(self, name: str) -> bool:
        """Whether a name is on its way, and not there yet."""
        return name in self._open

    def _hold(self, name: str, value: Any, path: str) -> None:
        if _defined_in(self.module, name, value):
            self._define(name, value, path)
            return
        if isinstance(value, fdl.Buildable):
            raise Refused("a config is for building, not for use on the node", "Give what it builds as an argument.")
        before = len(self.sources.problems)
        made = self.graph.value(value, path, leaf=True)
        if len(self.sources.problems) == before:
            self.steps.append(["bind", name, made])

    def _define(self, name: str, value: Any, path: str) -> None:
        text = source_text.find(self.module, name, value)
        text = source_uses.without_decorators(text, self._is_launchers)
        uses = source_uses.uses(text)
        self._needs[name] = [*uses.made, *uses.called]
        for used in uses.made:
            self._settled(used, text.file, _inside(path, name, used))
            self.hold(used, _inside(path, name, used))
        absent = {used for used in uses.annotations if not self._try(used, path)}
        if absent and "annotations" not in text.features:
            text = source_uses.with_quoted(text, absent.__contains__)
        self._import(uses.chains, name)
        self._in_order(name, uses.made)
        self.steps.append(["define", source_text.shown(text.file), text.line, text.text, list(text.features)])
        self.defined.append(name)
        self._open.discard(name)
        for used in uses.called:
            self.hold(used, _inside(path, name, used))

    def _in_order(self, name: str, made: list[str]) -> None:
        """What a definition calls while it is made must be there: a registry that holds what registers there is not."""
        seen: dict[str, None] = dict.fromkeys(used for used in made if used != name)
        for used in seen.copy():
            left = [used]
            while left:
                for more in self._needs.get(left.pop(), ()):
                    if more not in seen and more != name:
                        seen[more] = None
                        left.append(more)
        missing = [used for used in seen if used in self._open]
        if missing:
            raise Refused(f"{name} is made with {missing[0]}, and {missing[0]} needs {name}", _ORDER)

    def _settled(self, name: str, file: str, path: str) -> None:
        """A definition saw a value when it was made; what travels is the value that the name has now."""
        value = vars(self.module).get(name)
        if name in self._held or isinstance(value, types.ModuleType) or _defined_in(self.module, name, value):
            return
        if source_text.assignments(self.module, name, file) > 1:
            what = f"{name} is assigned more than once, and it is not known which of its values was seen"
            self.sources.problems.append(Problem(what, path, "Assign it once, or write the value itself there."))

    def _try(self, name: str, path: str) -> bool:
        """Hold a name that only an annotation has, if it can be held; else leave no trace."""
        if not hasattr(builtins, name) and name not in vars(self.module):
            return False
        problems = self.sources.problems
        before = (len(problems), len(self.steps), len(self.defined), dict(self._held), self.graph.state())
        self.hold(name, path)
        if len(problems) == before[0]:
            return True
        del problems[before[0] :], self.steps[before[1] :], self.defined[before[2] :]
        self._held = before[3]
        self.graph.restore(before[4])
        return False

    def _import(self, chains: list[tuple[str, ...]], name: str) -> None:
        """Submodules that are reached through their package, which need not import them by itself."""
        for root, *parts in chains:
            found = vars(self.module).get(root)
            for part in parts:
                if not isinstance(found, types.ModuleType):
                    break
                below = vars(found).get(part)
                if not isinstance(below, types.ModuleType) or f"{found.__name__}.{part}" != below.__name__:
                    break
                found = below
                step = ["import", below.__name__, f"{name} in {self.where}"]
                if (
                    below.__name__ in sys.modules
                    and step not in self.steps
                    and not self.graph.names.reason(below.__name__)
                ):
                    self.steps.append(step)

    def _is_launchers(self, decorator: ast.expr) -> bool:
        """Whether a decorator is of a launcher: it made a config of the function here, or a command."""
        while isinstance(decorator, (ast.Call, ast.Attribute)):
            decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
        value = vars(self.module).get(decorator.id) if isinstance(decorator, ast.Name) else None
        module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
        return str(module).partition(".")[0] in LAUNCHERS


class _Steps(list[Any]):
    """Nodes of a graph, that become steps as they are added."""

    def __init__(self, steps: list[list[Any]]) -> None:
        super().__init__()
        self._steps = steps

    def append(self, node: Any) -> None:
        super().append(node)
        self._steps.append(["make", *node])


def _defined_in(module: types.ModuleType, name: str, value: Any) -> bool:
    """Whether the value is a function or class that the module itself defines under this name."""
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if type(value).__name__ in ("TypeVar", "ParamSpec", "NewType"):
        return bool(getattr(value, "__name__", None) == name)
    is_one = isinstance(value, (type, types.FunctionType)) or hasattr(value, "__wrapped__")
    return is_one and getattr(value, "__qualname__", None) == name and getattr(value, "__name__", "") != "<lambda>"


def _inside(path: str, name: str, used: str) -> str:
    return f"{path.partition(' (')[0]} ({name} uses {used})"
