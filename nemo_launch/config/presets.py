"""GPU cluster presets: what ``slurm_type`` stands for, from presets.yaml of this package and of the user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from nemo_launch.config import fabrics, loading
from nemo_launch.config.executor import Default, ExecutorConfig, SlurmConfig
from nemo_launch.config.fabrics import Fabric
from nemo_launch.config.hints import did_you_mean
from nemo_launch.config.layers import Layer, merge
from nemo_launch.errors import InputError, NotFound, Problem

FILE = "presets.yaml"
#: What describes machines. Account, partition, image and the like are the user's choice: they belong into a profile.
FIELDS = (
    "gpus_per_node", "ntasks_per_node", "cpus_per_task", "exclusive", "mem", "mem_per_cpu", "mem_per_gpu", "constraint",
    "mpi", "env_vars",
)  # fmt: skip
_MEMORY = ("mem", "mem_per_cpu", "mem_per_gpu")


C = TypeVar("C", bound=ExecutorConfig)


@dataclass(frozen=True)
class Preset:
    """One type of GPU cluster."""

    name: str
    file: str
    """Where it was found."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Values of config fields, for where none is given."""
    multi_node: tuple[Fabric, ...] = ()


def filled(config: C) -> C:
    """The config with its preset's values where it has none of its own.

    The one place where presets apply, for flags, files and Python alike; doing it twice changes nothing. Where there is
    no such preset the config stays as it is: ``problems`` tells.
    """
    if not isinstance(config, SlurmConfig) or config.slurm_type is None:
        return config
    try:
        preset = find(config.slurm_type, config.work_dir)
    except InputError:
        return config
    memory_given = any(getattr(config, name) is not None for name in _MEMORY)
    values: dict[str, Any] = {}
    for name, value in preset.fields.items():
        current = getattr(config, name)
        if name == "env_vars":
            values[name] = {**value, **current}
        elif (current is None or isinstance(current, Default)) and not (memory_given and name in _MEMORY):
            values[name] = value
    return replace(config, **values)


def problems(config: SlurmConfig) -> Iterator[Problem]:
    """What is wrong with ``slurm_type`` and ``fabric``."""
    if config.slurm_type is None:
        if config.fabric is not None:
            yield Problem("it has no effect without slurm_type", "fabric", "Set slurm_type, or leave it out.")
        return
    try:
        preset = find(config.slurm_type, config.work_dir)
    except InputError as error:
        yield from (p if p.where else p._replace(where="slurm_type") for p in error.problems)
        return
    names = [fabric.name for fabric in preset.multi_node]
    if config.fabric is not None and config.fabric not in names:
        fix = did_you_mean(config.fabric, names) or f"It has {', '.join(names) or 'none'}."
        yield Problem(f"{preset.name} has no fabric {config.fabric!r}", "fabric", fix)


def taken_back(config: ExecutorConfig, given: Mapping[str, object]) -> Iterator[Problem]:
    """Fields that were given as null although the preset has a value, which would come back."""
    if not isinstance(config, SlurmConfig) or config.slurm_type is None:
        return
    for name, value in given.items():
        if value is None and name in FIELDS and getattr(config, name) is not None:
            fix = f"Give another value, or make a preset with `extends: {config.slurm_type}` and `{name}: null`."
            yield Problem(f"null does not take back what {config.slurm_type} says", name, fix)


def words(config: SlurmConfig) -> tuple[str, ...]:
    """The fabrics for the batch script (``runner.VALUES``); nothing for a single node."""
    if config.slurm_type is None or config.nodes < 2:
        return ()
    preset = find(config.slurm_type, config.work_dir)
    chosen = [fabric for fabric in preset.multi_node if config.fabric in (None, fabric.name)]
    return tuple(word for fabric in chosen for word in fabric.words())


def described(config: ExecutorConfig) -> dict[str, Any] | None:
    """What the preset gave, fit for JSON: its name and file, the values that are its own, its fabrics in use."""
    if not isinstance(config, SlurmConfig) or config.slurm_type is None:
        return None
    try:
        preset = find(config.slurm_type, config.work_dir)
    except InputError:
        return None
    own: dict[str, Any] = {}
    for name, value in preset.fields.items():
        current = getattr(config, name)
        if name == "env_vars":
            kept = {key: text for key, text in value.items() if current.get(key) == text}
            own |= {name: kept} if kept else {}
        elif current == value:
            own[name] = value
    used = [f.name for f in preset.multi_node if config.fabric in (None, f.name)] if config.nodes > 1 else []
    return {"name": preset.name, "file": preset.file, "fields": own, "fabrics": used}


def find(name: str, work_dir: str | None = None) -> Preset:
    """The preset of this name: of the first presets.yaml that has it, the package's own last.

    Raises:
        NotFound: there is none; near names are given.
        InputError: the file, or the preset, is not right.
    """
    chain: list[Layer] = []
    seen: list[str] = []
    where, file, wanted = "", "", name
    while wanted:
        if wanted in seen:
            loop = " -> ".join((*seen, wanted))
            raise InputError(Problem(f"presets extend each other in a circle: {loop}", where, "Break it."))
        seen.append(wanted)
        document = _document_of(wanted, work_dir, where)
        where, file, body = document.where(wanted), file or document.source, document.values[wanted]
        if not isinstance(body, Mapping):
            raise InputError(Problem(f"preset {wanted} is not a mapping", where, "Write fields below it."))
        chain.append(_layer(wanted, body, document))
        base = body.get("extends", "")
        if "extends" in body and not (isinstance(base, str) and base):
            raise InputError(Problem(f"extends of preset {wanted} is not one preset's name", where))
        wanted = base
    return _made(name, file, chain)


def names(work_dir: str | None = None) -> tuple[str, ...]:
    """All presets that apply in a work dir, the user's first."""
    return tuple(dict.fromkeys(str(name) for path in _paths(work_dir) for name in _read(path).values))


def _layer(name: str, body: Mapping[Any, Any], document: loading.Document) -> Layer:
    values = {str(key): value for key, value in body.items() if key != "extends"}
    return Layer(lambda key: f"{document.where(name, key)} (preset {name}): {key}", values)


def _made(name: str, file: str, chain: list[Layer]) -> Preset:
    from nemo_launch.config.structure import check

    merged = merge(chain[::-1])
    # a key set to null takes back what the extended preset says
    values = {key: value for key, value in merged.values.items() if value is not None}
    entries = values.pop("multi_node", [])
    networks, found = fabrics.read(entries, merged.place)
    for key in values:
        if key not in FIELDS:
            fix = did_you_mean(key, (*FIELDS, "multi_node", "extends")) or "Put it into a profile."
            found.append(Problem(f"a preset describes machines and has no {key}", merged.place(key), fix))
    fields = {key: value for key, value in values.items() if key in FIELDS}
    config, more = check(SlurmConfig, fields, merged.place)
    if found or more:
        raise InputError([*found, *more])
    return Preset(name, file, {key: getattr(config, key) for key in fields}, networks)


def _document_of(name: str, work_dir: str | None, where: str) -> loading.Document:
    for path in _paths(work_dir):
        document = _read(path)
        if name in document.values:
            return document
    known = names(work_dir)
    fix = did_you_mean(name, known)
    raise NotFound(Problem(f"there is no preset {name!r}", where, f"{fix} The presets are {', '.join(known)}.".strip()))


def _paths(work_dir: str | None) -> Iterator[str]:
    from nemo_launch import here, layout

    for folder in dict.fromkeys(
        (here.absolute(work_dir or "."), layout.home(), os.path.expanduser("~/.config/nemo_launch"))
    ):
        path = os.path.join(folder, FILE)
        if os.path.lexists(path):
            yield path
    yield os.path.join(os.path.dirname(__file__), FILE)


def _read(path: str) -> loading.Document:
    return _packaged(path) if os.path.dirname(path) == os.path.dirname(__file__) else loading.read(path)


@cache
def _packaged(path: str) -> loading.Document:
    return loading.read(path)
