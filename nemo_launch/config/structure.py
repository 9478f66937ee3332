"""From a plain dict (YAML, flags, Python keywords) to a config dataclass and back; all problems in one error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nemo_launch.config import ft, presets
from nemo_launch.config.durations import Duration
from nemo_launch.config.exact import exact
from nemo_launch.config.executor import CONFIGS, ExecutorConfig, changed, field_names
from nemo_launch.config.hints import did_you_mean
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.resume import ResumeOn
from nemo_launch.config.rules import validate
from nemo_launch.errors import InputError, Problem

if TYPE_CHECKING:
    from cattrs import Converter

C = TypeVar("C", bound=ExecutorConfig)
Where = str | Callable[[str], str]

#: What other programs call a field; only for hints, none of them is accepted.
SYNONYMS = {
    "image": "container_image",
    "mounts": "container_mounts",
    "extra_mounts": "container_mounts",
    "env": "env_vars",
    "num_nodes": "nodes",
    "gpus": "gpus_per_node",
    "nproc_per_node": "ntasks_per_node",
    "tasks_per_node": "ntasks_per_node",
    "cpus": "cpus_per_task",
    "memory": "mem",
    "walltime": "time",
    "time_limit": "time",
}


class Checked(NamedTuple):
    """A config as far as the values allow it, and what is wrong with them."""

    config: ExecutorConfig
    problems: list[Problem]


def structure(
    cls: type[C], values: Mapping[str, object], where: Where = "", from_text: bool | Collection[str] = False
) -> C:
    """Make a config from field names and values.

    Args:
        cls: the config dataclass.
        values: what was asked for. Types are strict: ``"2"`` is no number, ``2.0`` no whole one, ``True`` neither.
        where: what holds the values (``SlurmExecutor``), or a function from a key to the place where it was given.
        from_text: these keys (True: all) come from the command line, where everything is text: ``"2"`` is a number.

    Raises:
        InputError: with every problem of every field.
    """
    config, problems = check(cls, values, where, from_text)
    if problems:
        raise InputError(problems)
    return config  # type: ignore[return-value]


def check(
    cls: type[C],
    values: Mapping[str, object],
    where: Where = "",
    from_text: bool | Collection[str] = False,
    rules: bool = True,
) -> Checked:
    """Like ``structure``, but hand back the problems, for callers that have more of their own to report.

    Without ``rules`` only names and types are checked: what once ran is a fact.
    """
    place = where if callable(where) else (lambda key: f"{where}: {key}" if where else key)
    values = {
        str(key): _marked(value) if from_text is True or (from_text and key in from_text) else value
        for key, value in values.items()
    }
    problems = [Problem(*_unknown(cls, key, place)) for key in values if key not in field_names(cls)]
    values = {key: _megabytes(key, value) for key, value in values.items() if key in field_names(cls)}
    wrong: dict[str, list[str]] = {}
    try:
        config = _structured(cls, values)
    except _Wrong as error:
        wrong = error.by_key
        if "launcher" in wrong and values["launcher"] == "ft":
            wrong["launcher"] = [ft.ELSEWHERE]
        config = _structured(cls, {key: value for key, value in values.items() if key not in wrong})
    problems += [Problem(what, place(key)) for key in values for what in wrong.get(key, ())]
    if rules:
        config = presets.filled(config)
        problems += [p._replace(where=place(p.where)) for p in presets.taken_back(config, values)]
    found = validate(config) if rules else ()
    problems += [problem._replace(where=place(problem.where)) for problem in found if problem.where not in wrong]
    return Checked(config, problems)


def normal(config: C, where: Where = "") -> C:
    """The same config with the right types: one made by hand may hold ``"1:00:00"`` for a Duration.

    Raises:
        InputError: with every value of a wrong type. ``rules.validate`` is not asked.
    """
    made, problems = check(type(config), vars(config), where, rules=False)
    if problems:
        raise InputError(problems)
    return made  # type: ignore[return-value]


def given(cls: type[C], config: C | None, fields: Mapping[str, object], where: str) -> C:
    """What an executor is made from: its config, or the config's fields as keywords; ``where`` is the executor's name.

    Of a config only the types are checked: its rules are for ``Executor.check``, so that old records can be read.

    Raises:
        InputError: with every problem; or when both are given, or a config of another executor.
    """
    if config is None:
        return structure(cls, fields, where)
    if not isinstance(config, cls):
        fix = f"Write {where}({cls.__name__}(...))."
        if isinstance(config, str):
            fix = f"Name the field, as in {where}(FIELD={config!r}), or write nemo_launch.executor({config!r})."
        raise InputError(Problem(f"a {type(config).__name__} is no {cls.__name__}", where, fix))
    if fields:
        what = f"a config and the keywords {', '.join(fields)} at once"
        raise InputError(Problem(what, where, "Use dataclasses.replace on the config."))
    return presets.filled(normal(config, cls.__name__))


def unstructure(config: ExecutorConfig) -> dict[str, Any]:
    """The fields that differ from their defaults, fit for JSON; ``structure`` reads it back as an equal config."""
    return {name: _plain(value) for name, value in changed(config).items()}


def _plain(value: object) -> object:
    if isinstance(value, (Duration, ResumeOn)):
        return str(value)
    if isinstance(value, VolumeMapping):
        return {"source": value.source, "dest": value.dest, "options": value.options}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, dict) else value


def _megabytes(key: str, value: object) -> object:
    # `mem: 0` and `mem: 65536` mean what Slurm's text means; no quotes are asked for.
    number = key.startswith("mem") and isinstance(value, int) and not isinstance(value, bool)
    return str(value) if number else value


def _unknown(cls: type[ExecutorConfig], key: str, place: Callable[[str], str]) -> tuple[str, str, str]:
    kind = next((kind for kind, config in CONFIGS.items() if config is cls), cls.__name__)
    owners = [other for other, config in CONFIGS.items() if key in field_names(config)]
    if owners:
        return f"{key} is for {' and '.join(owners)}; {kind} has no use for it", place(key), ""
    known = field_names(cls)
    hint = f"Did you mean {SYNONYMS[key]}?" if SYNONYMS.get(key) in known else did_you_mean(key, known)
    return f"{kind} has no field {key}", place(key), hint or f"The fields are: {', '.join(known)}."


class _Wrong(Exception):
    """Messages by key."""

    def __init__(self, by_key: dict[str, list[str]]) -> None:
        super().__init__()
        self.by_key = by_key


def _structured(cls: type[C], values: Mapping[str, object]) -> C:
    if plain := exact(cls, values):
        return plain
    from cattrs.errors import ClassValidationError

    try:
        return _converter().structure(values, cls)
    except ClassValidationError as error:
        by_key: dict[str, list[str]] = {}
        for problem, note in error.group_exceptions()[0]:
            by_key.setdefault(note.name, []).extend(getattr(problem, "messages", [str(problem)]))
        raise _Wrong(by_key) from None


def _converter() -> Converter:
    from nemo_launch.config.converter import converter

    return converter()


def _marked(value: object) -> object:
    from nemo_launch.config.converter import Text

    if isinstance(value, str):
        return Text(value)
    return [_marked(item) for item in value] if isinstance(value, (list, tuple)) else value
