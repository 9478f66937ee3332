"""``--key.sub=value`` on the command line: handed on as typed, and applied here for recipes that get a plain dict."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_launch.errors import InputError, Problem


def pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """(key, value, word as typed), as AutoModel reads them: ``--key=value``, ``--key value``, or ``--key`` for true.

    A word that belongs to no key has the key "".
    """
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--") or word == "--":
            yield "", None, word
            continue
        key, given, value = word[2:].partition("=")
        if given:
            yield key, value, word
        elif waiting and not waiting[0].startswith("--"):
            yield key, waiting.pop(0), word
        else:
            yield key, None, word


def applied(config: Mapping[str, Any], words: Sequence[str]) -> tuple[dict[str, Any], list[Problem]]:
    """The config with the overrides in it, and what is wrong with them. Values are read as YAML."""
    made = copy.deepcopy(dict(config))
    problems = []
    for key, text, word in pairs(words):
        if not key:
            fix = f"Write --{word}" if "=" in word and not word.startswith("-") else "Write --KEY=VALUE."
            problems.append(Problem(f"{word!r} is no override of the recipe", "", fix))
            continue
        try:
            _put(made, key.split("."), True if text is None else _read(text))
        except (ValueError, InputError) as error:
            said = error.problems[0].what if isinstance(error, InputError) else str(error)
            problems.append(Problem(said, word.partition("=")[0]))
    return made, problems


def _read(text: str) -> Any:
    from nemo_launch.config.loading import parse

    try:
        return parse("value: " + text if text.strip() else "value: ''", "override").values["value"]
    except InputError:
        return text  # no YAML, and so text


def _put(made: Any, keys: list[str], value: Any) -> None:
    done = []
    for key in keys[:-1]:
        done.append(key)
        if isinstance(made, list):
            made = made[_index(made, key, done)]
            continue
        below = made.get(key)
        if below is None:
            below = made[key] = {}
        if not isinstance(below, dict | list):
            raise ValueError(f"{'.'.join(done)} is {below!r}, which has no {keys[len(done)]}")
        made = below
    if isinstance(made, list):
        made[_index(made, keys[-1], keys)] = value
    else:
        made[keys[-1]] = value


def _index(made: list[Any], key: str, done: list[str]) -> int:
    if key.isascii() and key.isdigit() and int(key) < len(made):
        return int(key)
    raise ValueError(f"{'.'.join(done)}: the list has {len(made)} entries, and none is number {key}")
