"""``${VAR}`` in the sections of an AutoModel YAML: from the environment, except that secrets stay references.

Forms: ``${VAR}``, ``${VAR:-default}`` (also where VAR is empty), ``${VAR,default}``, and these with ``oc.env:`` before
the name, as OmegaConf writes it. A bare ``$VAR`` is text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from nemo_launch import environment

_NAME = re.compile(r"\s*(?:oc\.env:)?\s*([A-Za-z_][A-Za-z0-9_]*)\s*(:-|,|\Z)", re.ASCII)
_FORMS = "write ${VAR}, ${VAR:-default}, ${VAR,default} or ${oc.env:VAR}"


class Expanded(NamedTuple):
    """A text with its variables put in."""

    text: str
    """With the values of secrets, where there are any: then it may be written nowhere."""
    changed: bool = False
    secrets: tuple[str, ...] = ()
    """Names of the secret variables whose values stand in it."""


def expand(text: str, environ: Mapping[str, str]) -> Expanded:
    """Put the values of variables in.

    Raises:
        ValueError: a variable is not set and has no default, or it is no such form.
    """
    done, end = [], 0
    secrets: list[str] = []
    while (start := text.find("${", end)) >= 0:
        done.append(text[end:start])
        end = _end(text, start)
        value, named = _value(text[start + 2 : end - 1], environ)
        done.append(value)
        secrets += named
    return Expanded("".join([*done, text[end:]]), end > 0, tuple(dict.fromkeys(secrets)))


def _end(text: str, start: int) -> int:
    """Just behind the brace that closes the one at ``start``."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("${", at):
            depth, at = depth + 1, at + 2
            continue
        at += 1
        if text[at - 1] == "}":
            depth -= 1
            if not depth:
                return at
    raise ValueError(f"${{ is not closed: {_FORMS}")


def _value(inner: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    found = _NAME.match(inner)
    if not found:
        raise ValueError(f"${{{inner}}} names no variable: {_FORMS}")
    name, mark = found[1], found[2]
    value = environ.get(name)
    if value is not None and not (mark == ":-" and not value):
        return value, (name,) if environment.is_secret(name) else ()
    if not mark:
        raise ValueError(f"the variable {name} is not set here: export it, or write ${{{name}:-default}}")
    default = expand(inner[found.end() :].lstrip() if mark == "," else inner[found.end() :], environ)
    return default.text, default.secrets
