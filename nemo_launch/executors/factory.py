"""From a word and values to an executor, and between executors and their records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nemo_launch.errors import InputError, Problem, RecordError

if TYPE_CHECKING:
    from nemo_launch.config.executor import ExecutorConfig
    from nemo_launch.config.structure import Where
    from nemo_launch.executors.base import Executor

#: Executor class of each kind; imported only when one is made.
KINDS = {
    "local": ("nemo_launch.executors.local", "LocalExecutor"),
    "slurm": ("nemo_launch.executors.slurm", "SlurmExecutor"),
}


def executor(name: str, **fields: object) -> Executor:
    """An executor by kind (``local``, ``slurm``) or by its name in profiles.yaml; ``fields`` override the profile's.

    Raises:
        NotFound: no such profile.
        InputError: with every problem of the fields.
    """
    from nemo_launch.config.layers import Layer, merge
    from nemo_launch.experiments import arguments

    arguments.text(name, "executor", "the name of a kind or profile")
    given = Layer(f"executor({name!r})", fields)
    if name in KINDS:
        return make(name, fields, given.where)
    from nemo_launch.config.profiles import load as profiles

    folder = fields.get("work_dir")
    profile = profiles(folder if isinstance(folder, str) else ".").resolve(name)
    merged = merge([profile.layer, given])
    return make(profile.kind, merged.values, merged.place)


def make(
    kind: str, values: Mapping[str, object], where: Where = "", from_text: bool | Collection[str] = False
) -> Executor:
    """An executor of a kind from the fields of its config; arguments as for ``config.structure.structure``."""
    from nemo_launch.config.executor import CONFIGS
    from nemo_launch.config.structure import structure

    if kind not in KINDS:
        raise InputError(unknown_kind(kind))
    return of(kind, structure(CONFIGS[kind], values, where, from_text))


def of(kind: str, config: ExecutorConfig) -> Executor:
    """The executor of a kind for a ready config."""
    made: Executor = _class(kind)(config)
    return made


def _class(kind: str) -> Any:
    module, name = KINDS[kind]
    return getattr(import_module(module), name)


def record(executor: Executor) -> dict[str, Any]:
    """What an executor's config is, fit for JSON and without the values of secrets; ``preset`` tells what is its."""
    from nemo_launch.config.presets import described
    from nemo_launch.config.structure import unstructure
    from nemo_launch.environment import without_secret_values

    config, _ = without_secret_values(executor.config)
    preset = described(config)
    return {"kind": executor.kind, "config": unstructure(config)} | ({"preset": preset} if preset else {})


def load(record: object) -> Executor:
    """The executor of a record.

    Raises:
        RecordError: another version wrote it, or it is damaged.
    """
    record = record if isinstance(record, Mapping) else {}
    kind, values = record.get("kind"), record.get("config")
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(values, Mapping):
        raise RecordError(f"the record names an executor {kind!r}, which this version does not know. Use a newer one.")
    executor: Executor = _class(kind)(record=values)
    return executor


def tasks(record: Mapping[str, Any], path: str) -> list[tuple[str, tuple[str, ...], Executor]]:
    """Name, predecessors and executor of each task of an experiment's record; ``path`` is where it lies.

    Raises:
        RecordError: it is damaged.
    """
    executors: dict[str, Executor] = {}
    found = []
    try:
        for entry in record["tasks"]:
            key = repr(entry["executor"])
            if key not in executors:
                executors[key] = load(entry["executor"])
            found.append((str(entry["name"]), tuple(entry["after"]), executors[key]))
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} is damaged: it does not tell the tasks. Move it away.") from error
    return found


def recorded(kind: str, values: object) -> Any:
    """The config of a record, which ``load`` leaves alone until somebody asks for it.

    Raises:
        RecordError: another version wrote it, or it is damaged.
    """
    from nemo_launch.config.executor import CONFIGS
    from nemo_launch.config.structure import check

    config, problems = check(CONFIGS[kind], values if isinstance(values, Mapping) else {}, rules=False)
    if problems:
        raise RecordError("the executor's record cannot be read: " + "; ".join(map(str, problems)))
    return config


def unknown_kind(kind: str, where: str = "executor") -> Problem:
    """That there is no such kind, with the nearest."""
    from nemo_launch.config.executor import no_kind

    return no_kind(kind, where)
