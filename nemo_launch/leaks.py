"""Values of secrets in what is written down: found before anything is, because nobody can take them back."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.errors import Problem
from nemo_launch.task import Task

SHORTEST = 8
"""Characters. A shorter value may stand anywhere by chance, and is not looked for."""
_BOUND = re.compile(r'\["bind", "([^"]+)"')


def of_config(config: ExecutorConfig, values: Mapping[str, str]) -> Iterator[Problem]:
    """Where the value of a secret stands in a field of an executor.

    Args:
        config: without the secrets themselves.
        values: of all secrets of the request, by name.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        named = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, text in named:
            if text:
                yield from _told(str(text), values, f"{field.name}: {key}" if key else field.name)


def of_task(task: Task, values: Mapping[str, str]) -> Iterator[Problem]:
    """Where the value of a secret stands in what is recorded of a task, or written for it."""
    values = _long(values)
    if not values:
        return
    for name, text in task.env.items():
        yield from _told(text, values, f"{task.name}: env: {name}")
    for number, word in enumerate(task.argv[1:], 1):
        yield from _told(word, values, f"{task.name}: argument {number}")
    in_fields = []
    for place, value in (task.config or {}).items():
        told = list(_told(str(value), values, f"{task.name}: {place}"))
        in_fields += told
        yield from told
    for code in task.code:
        for name, content in code.texts.items():
            if name == "graph.json" and in_fields:
                continue  # the same once more
            for line in content.decode("utf-8", "replace").splitlines():
                bound = _BOUND.match(line)
                yield from _told(line, values, f"{task.name}: {bound[1] if bound else 'its code'}")


def _told(text: str, values: Mapping[str, str], where: str) -> Iterator[Problem]:
    for name, value in _long(values).items():
        if any(form in text for form in _forms(value)):
            what = f"the value of the secret {name} stands in it, and would be written down"
            yield Problem(what, where, f"Leave it out, and read {name} from the environment in the job.")


def _long(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if len(value) >= SHORTEST}


def _forms(value: str) -> set[Any]:
    """As it is, as JSON and as Python show it."""
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
