"""What the launch flags say about fields of the config dataclasses."""

from __future__ import annotations

import argparse
import os

from nemo_launch import environment, here
from nemo_launch.cli.flags import DIRECTORIES, FLAGS
from nemo_launch.errors import InputError, Problem


def _given(flags: argparse.Namespace, dest: str) -> list[str]:
    value = getattr(flags, dest)
    return value if isinstance(value, list) else [] if value is None else [value]


def of_flags(flags: argparse.Namespace) -> tuple[dict[str, object], list[Problem]]:
    """Config fields that were given as flags, as text."""
    values: dict[str, object] = {}
    found: list[Problem] = []
    for flag in FLAGS:
        value = getattr(flags, flag.dest)
        if isinstance(value, list):
            value = [word for word in value if word.strip()]
        # what is empty is told by empty(), and by nobody else
        unset = value in (None, False, []) or (isinstance(value, str) and not value.strip())
        if unset or not flag.field or flag.field == "env_vars":
            continue
        # without a / an image would be taken for a registry's name
        image = flag.field == "container_image" and value.endswith(".sqsh") and "://" not in value
        if flag.field in DIRECTORIES or image:
            try:
                value = here.absolute(value)
            except InputError as error:
                found += error.problems
                continue
        values[flag.field] = False if flag.field == "snapshot" else value
    env, secrets, problems = _environment(flags.env or [], flags.secret or [])
    if env:
        values["env_vars"] = env
    if secrets:
        values["secrets"] = [*_given(flags, "secret"), *secrets]
    return values, [*found, *problems]


def _environment(words: list[str], wanted: list[str]) -> tuple[dict[str, str], list[str], list[Problem]]:
    """Variables of ``--env``; a bare name takes its value from here, and a bare secret name stays a name."""
    env: dict[str, str] = {}
    secrets, problems = [], []
    for word in words:
        name, given, value = word.partition("=")
        if not name:
            problems.append(Problem(f"{word!r} has no name before =", "--env", "Write NAME=VALUE or NAME."))
        elif name in wanted and (given or not environment.is_secret(name)):
            fix = f"Keep one: --secret {name} takes the value that is set here, and writes it nowhere."
            problems.append(Problem(f"{name} is given by --secret, too", "--env", fix))
        elif given:
            env[name] = value
        elif name not in os.environ:
            problems.append(Problem(f"{name} is not set here", "--env", f"Write {name}=VALUE, or export it first."))
        elif environment.is_secret(name):
            secrets.append(name)
        else:
            env[name] = os.environ[name]
    return env, secrets, problems


def empty(flags: argparse.Namespace) -> list[Problem]:
    """Flags that were given nothing, as happens when a shell variable is unset."""
    return [
        Problem("its value is empty", flag.shown, "Is a variable unset?")
        for flag in FLAGS
        if flag.metavar and flag.field != "env_vars"
        for value in _given(flags, flag.dest)
        if not value.strip()
    ]
