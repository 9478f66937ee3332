"""What a definition uses: names that it needs when it is made, when it is called, and in its annotations."""

from __future__ import annotations

import ast
import dis
import types
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nemo_launch.buildables.source_text import Text


class Uses(NamedTuple):
    """Names, in the order in which they are met."""

    made: list[str]
    """Decorators, defaults, bases, class bodies: they must be there before."""
    called: list[str]
    annotations: list[str]
    chains: list[tuple[str, ...]]
    """``torch.utils.data`` as ("torch", "utils", "data"): modules on the way must be imported."""


def uses(text: Text) -> Uses:
    """What a definition needs of its module."""
    tree = text.parse()
    annotations = [name for node in _annotations(tree) for name in _names(node)]
    bare = Text(text.file, text.line, _without_annotations(text), text.features)
    made: dict[str, None] = {}
    called: dict[str, None] = {}
    _walk(bare.compile(), made, called)
    chains = dict.fromkeys(chain for node in ast.walk(tree) if (chain := _chain(node)))
    return Uses(list(made), [n for n in called if n not in made], list(dict.fromkeys(annotations)), list(chains))


def without_decorators(text: Text, drop: Callable[[ast.expr], bool]) -> Text:
    """The text with some decorators of the definition blanked out; lines stay where they are."""
    lines = text.text.splitlines(keepends=True)
    node = _definition(text.parse())
    for decorator in getattr(node, "decorator_list", ()):
        if drop(decorator):
            for number in range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1):
                lines[number - text.line] = "\n"
    return text._replace(text="".join(lines))


def with_quoted(text: Text, quote: Callable[[str], bool]) -> Text:
    """The text with annotations made strings where they use a name that ``quote`` says yes to."""
    return _edited(text, lambda source: repr(" ".join(source.split())), lambda node: any(map(quote, _names(node))))


def _without_annotations(text: Text) -> str:
    return _edited(text, lambda source: "None", lambda node: True).text


def _edited(text: Text, made: Callable[[str], str], which: Callable[[ast.expr], bool]) -> Text:
    lines = [line.encode() for line in text.text.splitlines(keepends=True)]
    nodes = sorted(_annotations(text.parse()), key=lambda node: (node.lineno, node.col_offset), reverse=True)
    for node in filter(which, nodes):
        first, last = node.lineno - text.line, (node.end_lineno or node.lineno) - text.line
        before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        middle = b"".join([*lines[first:last], lines[last][: node.end_col_offset]])[len(before) :]
        written = made(middle.decode()) + "\n" * (last - first)
        lines[first : last + 1] = [before + f"({written})".encode() + after]
        lines = b"".join(lines).splitlines(keepends=True)
    return text._replace(text=b"".join(lines).decode())


def _definition(tree: ast.Module) -> ast.stmt:
    node = tree.body[0]
    return node.body[0] if isinstance(node, ast.If) else node


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Outermost annotations. Those of local variables are never looked at, and are left alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in (node.args, *node.decorator_list):
                yield from _annotations(part)
            if node.returns:
                yield node.returns
            for inner in node.body:
                yield from _annotations_inside(inner)
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation
        else:
            yield from _annotations(node)


def _annotations_inside(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield from _annotations(ast.Module([node], []))
    elif not isinstance(node, ast.AnnAssign):
        for inner in ast.iter_child_nodes(node):
            yield from _annotations_inside(inner)


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            try:
                yield from _names(ast.parse(inner.value, mode="eval"))
            except (SyntaxError, ValueError):
                continue


def _chain(node: ast.AST) -> tuple[str, ...]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if parts and isinstance(node, ast.Name) else ()


_AT_ONCE = frozenset(["LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL"])
_GLOBAL = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"])


def _walk(code: types.CodeType, made: dict[str, None], called: dict[str, None], at_once: bool = True) -> None:
    """Names that a code loads from its module; class bodies run at once, functions when they are called."""
    own: set[str] = set()
    instructions = list(dis.get_instructions(code))
    for instruction in instructions:
        name = instruction.argval
        if instruction.opname == "STORE_NAME":
            own.add(name)
        elif instruction.opname in _GLOBAL and name not in own:
            (made if at_once and instruction.opname in _AT_ONCE else called)[name] = None
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            is_body = "__qualname__" in inner.co_names and "__module__" in inner.co_names
            _walk(inner, made, called, at_once and (is_body or inner.co_name.startswith("<")))
