"""Values of several origins put together: script block < profile < --config file < flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from nemo_launch.config.executor import CONFIGS, ExecutorConfig, field_names


class Layer(NamedTuple):
    """Values of one origin. ``where`` names it, or finds the place of each key: ``--time``, ``profiles.yaml:12``."""

    where: str | Callable[[str], str]
    values: Mapping[str, object]
    adds: bool = False
    """Lists are added to those of the layers below, as flags that may be repeated do; otherwise they replace them."""


class Merged(NamedTuple):
    """The values that won, and where each was given."""

    values: dict[str, object]
    origin: dict[str, str]

    def place(self, key: str) -> str:
        """Where a key was given; for a key that was not, its own name."""
        return self.origin.get(key, key)


def merge(layers: Sequence[Layer]) -> Merged:
    """Later layers win; mappings (``env_vars``) are merged name by name, lists as each layer says."""
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            below = values.get(key)
            if isinstance(below, Mapping) and isinstance(value, Mapping):
                value = {**below, **value}
            elif layer.adds and isinstance(below, (list, tuple)) and isinstance(value, (list, tuple)):
                value = [*below, *value]
            values[key] = value
            origin[key] = layer.where(key) if callable(layer.where) else f"{layer.where}: {key}"
    return Merged(values, origin)


def script_block(cls: type[ExecutorConfig], block: Mapping[str, Any]) -> tuple[dict[str, object], list[str]]:
    """Values of a script's ``[tool.nemo-launch]`` block that concern this executor, and the keys that do not.

    A block says what the script needs wherever it runs, so what only other executors know (``nodes`` for a local
    run) is no mistake. What no executor knows is kept, for the error.
    """
    kept: dict[str, object] = {}
    skipped = []
    for key, value in block.items():
        if _fits(cls, key, value) or not any(_fits(other, key, value) for other in CONFIGS.values()):
            kept[key] = value
        else:
            skipped.append(key)
    return kept, skipped


def _fits(cls: type[ExecutorConfig], key: str, value: object) -> bool:
    if key not in field_names(cls):
        return False
    words = [
        word for part in get_args(get_type_hints(cls)[key]) if get_origin(part) is Literal for word in get_args(part)
    ]
    return not words or value in words
