"""AutoModel YAML: which section says where it runs, the fields that it gives, and what is left for the recipe.

The sections have the fields of the config dataclasses and, for users of AutoModel, some names more (``ALIASES``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_launch.config import variables
from nemo_launch.config.executor import CONFIGS, LATER, field_names, no_kind
from nemo_launch.config.hints import did_you_mean, nearest
from nemo_launch.config.layers import Layer
from nemo_launch.config.loading import Document
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.errors import InputError, Problem

#: Sections that name an executor; without one the run is on this machine.
SECTIONS = ("slurm", "skypilot")
#: Of AutoModel's other launchers, which a recipe would not understand either.
FOREIGN = ("k8s", "kubernetes", "nemo_run")
#: Further keys of ``slurm:`` and what they set.
ALIASES = {
    "nemo_mount": "container_mounts, and the first folder for imports",
    "hf_home": "HF_HOME, and a mount of it",
    "extra_mounts": "container_mounts",
}
#: Keys whose text is a program of its own: the shell that runs it expands its variables.
_SHELL = {"setup", "run"}


@dataclass
class Section:
    """The executor that a file asks for; the values are not checked yet (``structure.check`` does)."""

    kind: str
    layer: Layer
    problems: list[Problem] = field(default_factory=list)
    expanded: set[str] = field(default_factory=set)
    """Fields with values of variables, which are text and may stand for a number."""
    secret_values: dict[str, str] = field(default_factory=dict, repr=False)
    """Variables of the job that are made of secrets: they travel as secrets, too."""
    pythonpath: tuple[str, ...] = ()
    """Folders in the container that come first for imports."""


def kind_of(document: Document) -> str | None:
    """Which executor a file asks for; None: none.

    Raises:
        InputError: it asks for several, or for one that there is not.
    """
    found = [name for name in SECTIONS if name in document.values]
    problems = [*_foreign(document), *_misspelt(document)]
    if len(found) > 1:
        what = f"it has a section {found[0]} (line {_line(document, found[0])}) and a section {found[1]}"
        problems.append(Problem(what, document.where(found[1]), "Keep the one where it is to run."))
    elif found and found[0] in LATER and found[0] not in CONFIGS:
        problems.append(no_kind(found[0], document.where(found[0])))
    elif found and not isinstance(document.values[found[0]], Mapping | None):
        what = f"{found[0]} is not a mapping of fields"
        problems.append(Problem(what, document.where(found[0]), "Write `nodes: 2` and others, indented below it."))
    if problems:
        raise InputError(problems)
    return found[0] if found else None


def read(document: Document, environ: Mapping[str, str]) -> Section | None:
    """The section of a file with its variables put in; None: it has none.

    Raises:
        InputError: see ``kind_of``.
    """
    kind = kind_of(document)
    if kind is None:
        return None
    source: dict[str, str] = {}
    made = Section(kind, Layer(lambda name: _place(document, kind, source.get(name, name)), {}))
    values = _expanded(document, kind, made, environ)
    aliases = ALIASES if kind == "slurm" else {}
    known = (*field_names(CONFIGS[kind]), *aliases)
    for key in [key for key in values if key not in known]:
        fix = did_you_mean(key, known) or f"The keys are: {', '.join(known)}."
        made.problems.append(Problem(f"{kind} has no key {key}", document.where(kind, key), fix))
        del values[key]
    if aliases:
        _take_aliases(values, made, source, lambda key: _place(document, kind, key))
    return Section(
        kind, Layer(made.layer.where, values), made.problems, made.expanded, made.secret_values, made.pythonpath
    )


def rest(document: Document) -> dict[Any, Any]:
    """What the recipe gets."""
    return {key: value for key, value in document.values.items() if key not in SECTIONS}


def text_of_rest(document: Document) -> str:
    """The same as text: as it was written, without the lines of the section, where that is possible."""
    wanted = rest(document)
    if len(wanted) == len(document.values):
        return document.text
    import yaml

    from nemo_launch.config.loading import parse

    cut = "".join(_without(document))
    try:
        if parse(cut, document.source).values == wanted:
            return cut
    except InputError:
        pass  # such as an alias whose anchor is in the section
    return yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)


def _without(document: Document) -> Iterator[str]:
    lines = document.text.splitlines(keepends=True)
    cut: set[int] = set()
    for key, (start, end) in document.spans().items():
        end = min(end, len(lines))
        while key in SECTIONS and end > start + 1 and (lines[end - 1][0] == "#" or not lines[end - 1].strip()):
            end -= 1  # it belongs to what follows
        cut.update(range(start, end) if key in SECTIONS else ())
    yield from (line for number, line in enumerate(lines) if number not in cut)


def _foreign(document: Document) -> Iterator[Problem]:
    for name in FOREIGN:
        if name in document.values:
            fix = f"There are {' and '.join(SECTIONS)}; without one it runs on this machine."
            yield Problem(f"{name} is no section of this launcher", document.where(name), fix)


def _misspelt(document: Document) -> Iterator[Problem]:
    """``Slurm:`` would go to the recipe, and the run would start here."""
    for key, value in document.values.items():
        near = nearest(key, SECTIONS) if isinstance(key, str) and isinstance(value, Mapping) else None
        if near and key not in SECTIONS:
            yield Problem(f"there is no section {key}", document.where(key), f"Did you mean {near}?")


def _expanded(document: Document, kind: str, made: Section, environ: Mapping[str, str]) -> dict[str, Any]:
    """The section's values; what is wrong with their variables goes into its problems."""

    def one(value: Any, *keys: Any) -> Any:
        if isinstance(value, Mapping):
            entries = {key: one(entry, *keys, key) for key, entry in value.items()}
            return {key: entry for key, entry in entries.items() if entry is not _GONE}
        if isinstance(value, list):
            parts = [one(entry, *keys, number) for number, entry in enumerate(value)]
            return [entry for entry in parts if entry is not _GONE]
        if not isinstance(value, str) or keys[0] in _SHELL:
            return value
        try:
            found = variables.expand(value, environ)
        except ValueError as error:
            made.problems.append(Problem(str(error), _place(document, kind, *keys)))
            return _GONE
        if found.secrets:
            return _secret(found, *keys)
        if found.changed and len(keys) == 1:
            made.expanded.add(keys[0])
        return found.text

    def _secret(found: variables.Expanded, *keys: Any) -> Any:
        if keys[0] == "env_vars" and len(keys) == 2:
            made.secret_values[keys[1]] = found.text
            return _GONE
        what = f"the value of the secret {found.secrets[0]} would be written down, where others can read it"
        fix = f"Leave it out; env_vars may name secrets: `env_vars: {{{found.secrets[0]}: ${{{found.secrets[0]}}}}}`."
        made.problems.append(Problem(what, _place(document, kind, *keys), fix))
        return _GONE

    section = document.values[kind] or {}
    values = {str(key): one(value, str(key)) for key, value in section.items()}
    return {key: value for key, value in values.items() if value is not _GONE}


def _take_aliases(values: dict[str, Any], made: Section, source: dict[str, str], place: Callable[[str], str]) -> None:
    """Put what the further keys mean into the fields."""
    mounts: list[Any] = []
    if "nemo_mount" in values:
        mount = _mount(values.pop("nemo_mount"), place("nemo_mount"), made)
        mounts += mount
        made.pythonpath = tuple(one.dest for one in mount)
        if not values.get("container_image"):
            what = "it has no effect without a container"
            fix = "Set container_image, or put the folder on PYTHONPATH in env_vars."
            made.problems.append(Problem(what, place("nemo_mount"), fix))
        source["container_mounts"] = "nemo_mount"
    if "hf_home" in values:
        home = values.pop("hf_home")
        env = values.setdefault("env_vars", {})
        if not isinstance(home, str) or not home.startswith("/"):
            what = f"{home!r} is not an absolute path"
            made.problems.append(Problem(what, place("hf_home"), "Write it from / on, or with ${HOME}."))
        elif isinstance(env, dict) and "HF_HOME" in env:
            made.problems.append(Problem("env_vars has HF_HOME, too", place("hf_home"), "Keep one of them."))
        elif isinstance(env, dict):
            values["env_vars"] = {**env, "HF_HOME": home}
            if values.get("container_image"):
                mounts.append(VolumeMapping(home, home))
                source.setdefault("container_mounts", "hf_home")
    if "extra_mounts" in values:
        if not values.get("container_image") and values["extra_mounts"]:
            what = "it has no effect without a container"
            made.problems.append(Problem(what, place("extra_mounts"), "Set container_image, or leave it out."))
        extra = values.pop("extra_mounts")
        source["container_mounts"] = "extra_mounts"
        if not isinstance(extra, list):  # said below, by who knows how
            values["container_mounts"] = extra
            return
        mounts += extra
    own = values.get("container_mounts", [])
    if mounts and isinstance(own, list):
        values["container_mounts"] = [*own, *mounts]


def _mount(value: object, where: str, made: Section) -> list[VolumeMapping]:
    try:
        return [VolumeMapping.parse(value)]
    except ValueError as error:
        made.problems.append(Problem(str(error), where))
        return []


def _place(document: Document, *keys: Any) -> str:
    return f"{document.where(*keys)}: {'.'.join(map(str, keys))}"


def _line(document: Document, key: str) -> str:
    return document.where(key).rpartition(":")[2]


_GONE = object()
