"""Finding the text of a function or class of this process, and making sure that it is the text it was made from."""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import re
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from nemo_launch.buildables.encode_names import Refused

_NOTEBOOK = re.compile(r".*[/\\]ipykernel_\d+[/\\](\d+)\.py$|<ipython-input-(\d+)-\w+>$")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Text(NamedTuple):
    """A definition as it stands in its file."""

    file: str
    line: int
    """The first line of ``text``; decorators count."""
    text: str
    features: tuple[str, ...]
    """Of ``__future__``: ``annotations``, the one that still changes anything."""

    def parse(self) -> ast.Module:
        """Its tree, with the lines of its file."""
        return ast.parse("\n" * (self.line - 1) + self.text, self.file)

    def compile(self) -> types.CodeType:
        """Its code."""
        flags = __future__.annotations.compiler_flag if self.features else 0
        code: types.CodeType = compile("\n" * (self.line - 1) + self.text, self.file, "exec", flags, True)
        return code


def find(module: types.ModuleType, name: str, value: Any) -> Text:
    """The definition of a function or class at the top level of a module (under an ``if`` or ``try``, too).

    Raises:
        Refused: there is no source, or another one by now.
    """
    if hasattr(value, "registry") and hasattr(value, "dispatch"):
        what = f"{name} is a functools.singledispatch, whose other functions are not part of it"
        raise Refused(what, "Move them into a module of the work dir, and import it.")
    function = _function(value)
    if function is not None:
        file = function.__code__.co_filename
        for tree, lines in _parsed(file, module):
            for node in _definitions(tree, name):
                first = _first(node)
                if isinstance(node, ast.ClassDef) or first != function.__code__.co_firstlineno:
                    continue
                text = _cut(file, lines, node, _features(function.__code__))
                if any(_same(one, function.__code__) for one in _codes(text, tree, node)):
                    _check_function(function, node, tree, name)
                    return text
        raise _lost(name, file, module)
    files = _files(value, module)
    for file in files:
        for tree, lines in _parsed(file, module):
            features = _features_of(tree)
            for node in reversed(list(_definitions(tree, name))):
                text = _cut(file, lines, node, features)
                if _is_class_of(text, tree, node, value):
                    return text
    raise _lost(name, files[0] if files else "", module)


def shown(file: str) -> str:
    """A file's name in tracebacks: a notebook's cells lie in files that are named after the process."""
    match = _NOTEBOOK.match(file)
    if not match:
        return file
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return f"<cell {number if number is not None else match[1] or match[2]}>"


def assignments(module: types.ModuleType, name: str, file: str) -> int:
    """How often a module's text assigns a name, as far as one can see: in its file, or in all cells of a notebook."""
    files = [one for one in linecache.cache if _NOTEBOOK.match(one)] if _NOTEBOOK.match(file) else [file]
    return sum(_stores(tree, name, True) for one in files for tree, _ in _parsed(one, module))


def _stores(node: ast.AST, name: str, top: bool) -> int:
    if isinstance(node, ast.Name):
        return top and node.id == name and isinstance(node.ctx, (ast.Store, ast.Del))
    if isinstance(node, ast.Global):
        return name in node.names
    inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
    return sum(_stores(inner, name, top and not inside) for inner in ast.iter_child_nodes(node))


def _lost(name: str, file: str, module: types.ModuleType) -> Refused:
    if not file or not linecache.getlines(file, vars(module)):
        what = f"the source of {name} cannot be read (a program given with -c or on standard input has none)"
        return Refused(what, "Write it into a file, and launch that or import from it.")
    what = f"{name} is not what {shown(file)} says: the file, or {name} itself, was changed since it was loaded"
    fix = "Load it again (run the cell, start the program anew), or write what was changed into its definition."
    return Refused(what, fix)


def _check_function(function: types.FunctionType, node: Definition, tree: ast.Module, name: str) -> None:
    """What of a function is in no text."""
    attributes = sorted(set(vars(function)) - {"__wrapped__"})
    if attributes and not getattr(node, "decorator_list", ()):
        what = f"{name}.{attributes[0]} was set, and attributes of functions do not travel"
        raise Refused(what, "Use a name of the module instead.")
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "globals":
            what = f"{name} calls globals(), which tells nobody what it needs"
            raise Refused(what, "Name what it uses, or move it into a module of the work dir and import that.")
        if isinstance(inner, ast.Import) and any(alias.name == "__main__" for alias in inner.names):
            raise Refused(f"{name} imports __main__, which is another program on the node", "Use its names directly.")


def _function(value: Any) -> types.FunctionType | None:
    """The function itself, below what decorators made of it."""
    while not isinstance(value, type) and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value if isinstance(value, types.FunctionType) else None


def _files(value: Any, module: types.ModuleType) -> list[str]:
    """Where a class may be defined."""
    methods = (
        [_function(getattr(one, "__func__", one)) for one in vars(value).values()] if isinstance(value, type) else []
    )
    mine = [f.__code__.co_filename for f in methods if f is not None and f.__module__ == module.__name__]
    files = [file for file in mine if not file.startswith("<") or file in linecache.cache]
    if isinstance(getattr(module, "__file__", None), str):
        files.append(str(module.__file__))
    files += [file for file in reversed(list(linecache.cache)) if _NOTEBOOK.match(file) or file.startswith("<")]
    return list(dict.fromkeys(files))


def _parsed(file: str, module: types.ModuleType) -> Iterator[tuple[ast.Module, list[str]]]:
    linecache.checkcache(file)
    lines = linecache.getlines(file, vars(module))
    try:
        tree = _tree("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return
    if lines:
        yield tree, lines


@functools.lru_cache(maxsize=16)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _definitions(tree: ast.AST, name: str) -> Iterator[Definition]:
    """Statements that define a name, outside of functions and classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name == name:
                yield node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [getattr(target, "id", None) for target in targets] == [name] and isinstance(node.value, ast.Call):
                yield node
        elif isinstance(node, (ast.stmt, ast.ExceptHandler)):
            yield from _definitions(node, name)


def _first(node: Definition) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _cut(file: str, lines: Sequence[str], node: Definition, features: tuple[str, ...]) -> Text:
    first = _first(node)
    text = "".join(lines[first - 1 : node.end_lineno])
    if (
        node.col_offset and lines[node.lineno - 1][: node.col_offset].isspace()
    ):  # indented text may hold strings: it is left as it is
        return Text(file, first - 1, "if True:\n" + text, features)
    return Text(file, first, text, features)


def _codes(text: Text, tree: ast.Module, node: Definition) -> Iterator[types.CodeType]:
    """What the definition compiles to: alone, as in a notebook, or with its file, whose imports make a difference."""
    flags = __future__.annotations.compiler_flag if text.features else 0
    for unit in (ast.Module([node], []), tree):
        found = [compile(unit, text.file, "exec", flags, True)]
        while found:
            code = found.pop()
            inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
            found += [one for one in inner if one.co_name.startswith("<generic")]
            name = getattr(node, "name", "")
            yield from (one for one in inner if one.co_name == name and one.co_firstlineno == _first(node))


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two codes do the same, on whatever lines."""
    alike = all(
        getattr(one, name) == getattr(other, name)
        for name in ("co_code", "co_names", "co_varnames", "co_freevars", "co_argcount", "co_kwonlyargcount")
    )
    pairs = list(zip(one.co_consts, other.co_consts, strict=False))
    return (
        alike
        and len(one.co_consts) == len(other.co_consts)
        and all(
            _same(a, b) if isinstance(a, types.CodeType) and isinstance(b, types.CodeType) else repr(a) == repr(b)
            for a, b in pairs
        )
    )


def _is_class_of(text: Text, tree: ast.Module, node: Definition, value: Any) -> bool:
    """Whether a class can come from this text: the same methods, the same names."""
    if not isinstance(node, ast.ClassDef):
        return True
    if not isinstance(value, type):
        return False
    inside = [one for body in _codes(text, tree, node) for one in body.co_consts if isinstance(one, types.CodeType)]
    given: dict[str, ast.expr] = {}
    for one in node.body:
        if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
            for part in one.targets if isinstance(one, ast.Assign) else [one.target]:
                given[getattr(part, "id", "")] = one.value
    for name, member in vars(value).items():
        method = _function(getattr(member, "__func__", member))
        if method is None or method.__module__ != value.__module__:
            continue
        if method.__qualname__ != f"{node.name}.{name}":
            if method.__qualname__.partition(".")[0] != node.name and not node.decorator_list and name not in given:
                return False  # it was put there later
            continue
        if method.__code__.co_filename != text.file:  # generated, as by dataclass
            continue
        if not any(_same(one, method.__code__) for one in inside if one.co_name == name):
            return False
    for target, constant in given.items():
        now = vars(value).get(target, Ellipsis)
        simple = isinstance(constant, ast.Constant) and type(now) in (bool, int, float, str, bytes)
        once = sum(_stores(one, target, True) for one in node.body) == 1
        if simple and once and repr(now) != repr(ast.literal_eval(constant)):
            return False
    written = {one.name for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    annotated = {getattr(one.target, "id", "") for one in node.body if isinstance(one, ast.AnnAssign)}
    known = set(vars(value)) | set(getattr(value, "__annotations__", {})) | set(getattr(value, "_member_map_", {}))
    return written | annotated <= known


def _features(code: types.CodeType) -> tuple[str, ...]:
    return ("annotations",) if code.co_flags & __future__.annotations.compiler_flag else ()


def _features_of(tree: ast.Module) -> tuple[str, ...]:
    imports = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    return ("annotations",) if any(alias.name == "annotations" for one in imports for alias in one.names) else ()
