"""YAML files of settings: strict, with the line of every key, and one clear error for whatever is wrong."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from nemo_launch.errors import InputError, Problem

if TYPE_CHECKING:
    import yaml

_LIMIT = 1 << 20
#: Values that a file may have when its aliases are written out; more are a mistake, or meant to fill the memory.
_MOST = 100_000
#: YAML 1.1 reads ``1e-5`` as text, which nobody means.
_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+\Z", re.ASCII)
#: Values of these mappings are text as it is written: ``1.10`` is no number there, ``yes`` no truth value.
_AS_WRITTEN = "env_vars"


@dataclass(frozen=True)
class Document:
    """A YAML mapping and the file it came from."""

    source: str
    values: dict[Any, Any]
    _node: Any = field(default=None, repr=False)
    text: str = field(default="", repr=False)

    def where(self, *keys: object) -> str:
        """``file:line`` of a key under keys; of the nearest key above it where it has no line of its own."""
        node, line = self._node, None
        for key in keys:
            found = [pair for pair in getattr(node, "value", ()) if isinstance(pair, tuple) and pair[0].value == key]
            if not found:
                break
            name, node = found[-1]  # what is written here stands behind what it was merged with
            line = name.start_mark.line + 1
        return f"{self.source}:{line}" if line else self.source

    def spans(self) -> dict[Any, tuple[int, int]]:
        """The lines of each key of the top: (number of the first, counted from 0; of the first behind them)."""
        starts = [(key.value, key.start_mark.line) for key, _ in getattr(self._node, "value", ())]
        ends = [line for _, line in starts[1:]] + [1 << 62]
        return {key: (start, end) for (key, start), end in zip(starts, ends, strict=True)}


def read(path: str | os.PathLike[str]) -> Document:
    """Read a YAML file.

    Raises:
        InputError: it cannot be read, or is not one YAML mapping; file and line are named.
    """
    source = os.fspath(path)
    try:
        if _is_named_pipe(source):
            raise InputError(Problem("it is a named pipe, and may never be written to", source, "Name a YAML file."))
        with open(source, "rb") as file:
            data = file.read(_LIMIT + 1)
    except OSError as error:
        what = "it is a directory" if isinstance(error, IsADirectoryError) else f"cannot be read: {error.strerror}"
        raise InputError(Problem(what, source, "Name a YAML file.")) from None
    except ValueError:
        raise InputError(Problem("it holds a NUL byte, which no file name can", repr(source))) from None
    if len(data) > _LIMIT:
        raise InputError(Problem("it is larger than 1 MiB, which no file of settings is", source))
    return parse(data, source)


def _is_named_pipe(source: str) -> bool:
    """One with a place of its own; that of ``<(command)`` has none, and is read."""
    try:
        return stat.S_ISFIFO(os.stat(os.path.realpath(source)).st_mode)
    except OSError:
        return False  # whatever it is, opening it says more


def parse(data: bytes | str, source: str) -> Document:
    """Read YAML text; ``source`` names it in errors. Raises like ``read``."""
    import yaml

    text = data if isinstance(data, str) else _decoded(data, source)
    try:
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            if node is None or node.tag == "tag:yaml.org,2002:null":
                return Document(source, {})
            if not isinstance(node, yaml.MappingNode):
                raise _wrong(source, node, "the file is not a mapping", "Write it as `name: value` lines.")
            _prepare(node, source)
            return Document(source, loader.construct_document(node), node, text)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _explained(error, source, text) from None
    except RecursionError:
        raise InputError(Problem("it is nested too deeply", source)) from None
    except ValueError as error:  # such as the date 2024-13-45, which YAML 1.1 takes for one
        raise InputError(Problem(f"it holds a value that YAML cannot read: {error}", source, "Quote it.")) from None


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(Problem("it is not UTF-8 text", f"{source}:{line}", "Save it as UTF-8.")) from None


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Our own, so that what others register on theirs stays out, and ours stays here."""

    Loader.yaml_constructors = dict(yaml.SafeLoader.yaml_constructors)
    Loader.yaml_implicit_resolvers = {key: [*known] for key, known in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))
    return Loader


def _prepare(top: yaml.Node, source: str) -> None:
    """Refuse keys that stand twice (YAML would keep the last and say nothing); keep what must stay as written."""
    import yaml

    _bounded(top, source)
    seen: set[int] = set()
    waiting = [top]
    problems = []
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            waiting.append(value)
            if not isinstance(key, yaml.ScalarNode):
                fix = "Quote text that starts with { or [."
                problems.append(Problem("a key is a list or a mapping", _place(source, key), fix))
                continue
            if (name := (key.tag, key.value)) in lines:
                what = f"{key.value} stands twice, first in line {lines[name]}"
                problems.append(Problem(what, _place(source, key), "Keep one of them."))
            lines.setdefault(name, key.start_mark.line + 1)
            if key.value == _AS_WRITTEN and isinstance(value, yaml.MappingNode):
                value.value = [(name, _as_text(entry)) for name, entry in value.value]
    if problems:
        raise InputError(sorted(problems, key=lambda problem: int(problem.where.rpartition(":")[2])))


def _bounded(top: yaml.Node, source: str) -> None:
    """Refuse aliases that lead in a circle, and those that stand for more than anybody could have written."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if not isinstance(node.value, list):
            return 1
        known = sizes.get(id(node))
        if known == 0:
            raise _wrong(source, node, "it contains itself, by an alias", "Write it out.")
        if known is None:
            sizes[id(node)] = 0
            parts = (part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,)))
            known = sizes[id(node)] = 1 + sum(map(size, parts))
            if known > _MOST:
                what = f"with its aliases written out it has more than {_MOST} values"
                raise _wrong(source, node, what, "Use fewer.")
        return known

    size(top)


def _as_text(node: yaml.Node) -> yaml.Node:
    import yaml

    typed = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "timestamp")}
    if not isinstance(node, yaml.ScalarNode) or node.tag not in typed:
        return node
    # A copy: with an anchor, the same node may stand elsewhere as a number.
    return yaml.ScalarNode("tag:yaml.org,2002:str", node.value, node.start_mark, node.end_mark)


def _place(source: str, node: yaml.Node) -> str:
    return f"{source}:{node.start_mark.line + 1}"


def _wrong(source: str, node: yaml.Node, what: str, fix: str) -> InputError:
    return InputError(Problem(what, _place(source, node), fix))


def _explained(error: yaml.YAMLError, source: str, text: str) -> InputError:
    import yaml

    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        what = f"it holds the character {chr(error.character)!r}, which YAML does not allow"
        return InputError(Problem(what, f"{source}:{line}"))
    if not isinstance(error, yaml.MarkedYAMLError):
        return InputError(Problem(f"it is not YAML: {error}", source))
    mark = error.problem_mark or error.context_mark
    where = f"{source}:{mark.line + 1}" if mark else source
    problem = error.problem or "it is not YAML"
    if "'\\t'" in problem:
        return InputError(Problem("a tab stands where only spaces may", where, "Indent with spaces."))
    if "another document" in problem or "single document" in (error.context or ""):
        return InputError(Problem("a second document starts here", where, "Keep one, without `---` between."))
    if "could not determine a constructor" in problem:
        return InputError(Problem("tags such as !!python/… are not read here", where, "Write plain values."))
    context = f"{error.context}: " if error.context else ""
    return InputError(Problem(f"it is not YAML: {context}{problem}", where))
