"""What a node finds by its dotted name: classes, functions, dtypes and modules that it can import."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Sequence
from typing import Any

from nemo_launch.buildables.loading import MARK

_SITE = frozenset(["site-packages", "dist-packages"])
_OWN = "nemo_launch"
#: What makes recipes, and is not needed to run them.
LAUNCHERS = frozenset([_OWN, "nemo_run", "fiddle"])


class Refused(Exception):
    """A value that cannot travel: why, and what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class Names:
    """Dotted names as the node will understand them.

    Args:
        roots: folders whose copy is on the node's import path.
        by_source: names objects of modules that the node will not have, and sees to it that they travel.
    """

    def __init__(self, roots: Sequence[str], by_source: Callable[[Any, str], str]) -> None:
        self.roots = [os.path.realpath(root) for root in roots]
        self._by_source = by_source
        self._reasons: dict[str, tuple[str, str] | None] = {}

    def name(self, value: Any, path: str) -> str:
        """``module:qualified.name``; importing that on the node gives what the value is here.

        Raises:
            Refused: there is no such name, or the node could not import its module.
        """
        if isinstance(value, types.ModuleType):
            self._check(value.__name__, f"module {value.__name__}")
            return f"{value.__name__}:"
        special = _special(value)
        if special:
            return special
        module, qualname = claimed(value)
        is_definition = isinstance(value, (type, types.FunctionType, types.MethodType)) or hasattr(value, "__wrapped__")
        if is_definition and self._only_here(module):
            return self._by_source(value, path)
        if module and qualname and find(module, qualname, value):
            # torch.nn.functional.gelu says that it comes from a module without a file
            elsewhere = self._elsewhere(value, qualname) if self.reason(module) and not is_definition else ""
            if elsewhere:
                return elsewhere
            self._check(module, f"{module}.{qualname}")
            return f"{module}:{qualname}"
        # functools.wraps gives a function the name of another one. Of other objects the state may have changed since.
        names = vars(sys.modules[module]) if callable(value) and module in sys.modules else {}
        alias = next((name for name, one in names.items() if one is value), "")
        if alias:
            self._check(module, f"{module}.{alias}")
            return f"{module}:{alias}"
        elsewhere = self._elsewhere(value, qualname)
        if elsewhere:
            return elsewhere
        raise refusal(value, module, qualname)

    def _only_here(self, name: str) -> bool:
        """Whether a module is not imported on the node: the program, a recipe file, one that needs a launcher."""
        module = sys.modules.get(name)
        if module is None:
            return False
        if name == "__main__" or hasattr(module, MARK):
            return True
        path = getattr(module, "__file__", None)
        if not path or not self._below_roots(os.path.realpath(path), name) or name.partition(".")[0] in LAUNCHERS:
            return False
        parents = [name]
        while "." in parents[-1]:
            parents.append(parents[-1].rpartition(".")[0])
        return any(_uses_launcher(sys.modules[one]) for one in parents if one in sys.modules)

    def _elsewhere(self, value: Any, qualname: str) -> str:
        """A module that has the very object under its name: torch.relu says that it comes from none."""
        last = qualname.rpartition(".")[2] or getattr(value, "__name__", "")
        if not last or not isinstance(last, str):
            return ""
        found = [
            module
            for module in list(sys.modules)
            if module != "__main__" and find(module, last, value) and not self.reason(module)
        ]
        return f"{min(found, key=lambda name: (name.count('.'), len(name), name))}:{last}" if found else ""

    def _check(self, module: str, what: str) -> None:
        reason = self.reason(module)
        if reason:
            raise Refused(f"{what} {reason[0]}", reason[1])

    def reason(self, name: str) -> tuple[str, str] | None:
        """Why the node could not import a module, and what to do; None: it can."""
        if name not in self._reasons:
            self._reasons[name] = self._reason(name)
        return self._reasons[name]

    def _reason(self, name: str) -> tuple[str, str] | None:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name == "__main__":
            return "is of the program that runs here, which the node does not have", "Move it into a module."
        if file is None:
            if name.partition(".")[0] in sys.stdlib_module_names:
                return None
            places = [os.path.realpath(place) for place in getattr(module, "__path__", ())]
            if any(self._lies_right(place, name) for place in places):
                return None
            return "is in no file that could be copied to the node", "Import it from a file below the work dir."
        path = os.path.realpath(file)
        if self._below_roots(path, name):
            return None
        if name.partition(".")[0] == _OWN:
            return "is part of the launcher, which the node need not have", "Use a function or class of your own."
        if _SITE & set(path.split(os.sep)) or _standard(path):
            return None
        fix = f"Move {file} below the work dir (-d), install its package, or launch from the folder that it is in."
        below = [root for root in self.roots if path.startswith(root + os.sep)]
        if below:
            relative = os.path.relpath(path, below[0])
            return (
                f"is imported as {name} here, and the node would know its file, {relative} below {below[0]}, "
                "by another name",
                f"Import it as {_import_name(relative)}, or launch with the folder on top of it as work dir (-d).",
            )
        return f"comes from {file}, which is neither installed nor below the work dir", fix

    def _below_roots(self, path: str, name: str) -> bool:
        stem = path.partition(os.path.basename(path))[0] + os.path.basename(path).partition(".")[0]
        if os.path.basename(stem) == "__init__":
            stem = os.path.dirname(stem)
        return self._lies_right(stem, name)

    def _lies_right(self, stem: str, name: str) -> bool:
        relative = name.replace(".", os.sep)
        return any(stem == os.path.join(root, relative) for root in self.roots)


def lies_below(file: str, roots: Sequence[str]) -> str:
    """A file's path relative to the first root that it lies below; empty: it lies below none."""
    real = os.path.realpath(file)
    return next((os.path.relpath(real, root) for root in roots if real.startswith(root + os.sep)), "")


def _uses_launcher(module: types.ModuleType) -> bool:
    """Whether importing a module would import a launcher, as far as its names tell."""
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name.partition(".")[0] in LAUNCHERS:
            return True
    return False


def _import_name(relative: str) -> str:
    stem = os.path.join(os.path.dirname(relative), os.path.basename(relative).partition(".")[0])
    return stem.replace(os.sep, ".").removesuffix(".__init__")


@functools.cache
def _library() -> tuple[str, ...]:
    return tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})


def _standard(path: str) -> bool:
    return path.startswith(_library())


def claimed(value: Any) -> tuple[str, str]:
    """Module and qualified name that an object gives for itself."""
    owner = getattr(value, "__self__", None)
    name = getattr(value, "__name__", "")
    if isinstance(owner, type) and isinstance(name, str):  # a class method
        return owner.__module__, f"{owner.__qualname__}.{name}"
    if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):  # str.upper
        return value.__objclass__.__module__, f"{value.__objclass__.__qualname__}.{name}"
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", name)
    return (module if isinstance(module, str) else ""), (qualname if isinstance(qualname, str) else "")


def find(module: str, qualname: str, value: Any) -> bool:
    """Whether the name leads to the value."""
    found: Any = sys.modules.get(module)
    if found is None:
        return False
    for part in qualname.split("."):
        found = vars(found).get(part) if isinstance(found, types.ModuleType) else getattr(found, part, None)
        if found is None:
            return False
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)) and isinstance(value.__self__, type):
        return bool(found == value)  # made anew at each access
    return found is value


def _special(value: Any) -> str:
    """Objects that know their name only as text."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind in ("torch.dtype", "torch.layout", "torch.memory_format"):
        return str(value).replace(".", ":", 1)
    return ""


def refusal(value: Any, module: str, qualname: str) -> Refused:
    kind = type(value)
    full = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
        return Refused("a lambda has no name that a node could find", "Write it as a function (def) of a module.")
    owner = getattr(value, "__self__", None)
    is_method = isinstance(value, types.BuiltinMethodType) and not isinstance(
        owner, (type, types.ModuleType, type(None))
    )
    if isinstance(value, types.MethodType) or is_method:
        what = f"{qualname} is a method of an object, and the object cannot travel"
        return Refused(what, "Use a function, and give it what it needs as a Config.")
    if getattr(value, "__origin__", None) is not None:
        what = f"{value} is a type hint, and nothing that could be given to a function on the node"
        return Refused(what, f"Give the class itself, {getattr(value.__origin__, '__name__', value.__origin__)}.")
    if "<locals>" in qualname:
        what = f"{qualname} is defined inside a function, where no node could find it"
        return Refused(what, "Move it to the top level of its module.")
    if isinstance(value, type) or callable(value) and qualname:
        what = f"{module or 'no module'} has no {qualname} any more that is this {full}"
        return Refused(what, "Use the object that the name stands for now; a decorator may have replaced it.")
    return Refused(f"an object of type {full} cannot travel", _REMEDIES.get(full, _OTHERWISE.format(kind.__name__)))


_OTHERWISE = "Write Config({}, ...) instead of the object, so that the node makes its own, or make it in the function."
_LATER = "Give what it is made from, and make it inside the function."
_REMEDIES = {
    "generator": "Give a list, or make it inside the function.",
    "coroutine": "Give a function that is not async.",
    "torch.Tensor": "Give a list of numbers, or load the tensor inside the function.",
    "torch.nn.parameter.Parameter": _LATER,
    "_io.TextIOWrapper": "Give the path, and open the file inside the function.",
    "_io.BufferedReader": "Give the path, and open the file inside the function.",
    "_io.BufferedWriter": "Give the path, and open the file inside the function.",
    "_thread.lock": "Make the lock inside the function.",
    "_thread.RLock": "Make the lock inside the function.",
    "numpy.ndarray": "Give a list (.tolist()).",
    "code": _LATER,
}
