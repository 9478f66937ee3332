"""Recipe -> Task. A recipe says what to run; ``lower`` turns it into words, environment and code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nemo_launch import environment
from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.errors import InputError, Problem
from nemo_launch.experiments import arguments
from nemo_launch.task import Task


@dataclass(frozen=True)
class Site:
    """What lowering needs to know of the place: never the experiment's id, so that equal requests lower equally."""

    config: ExecutorConfig
    work_dir: str
    """Absolute."""
    snapshots: str
    """Folder of the snapshots as the nodes see it."""
    leave_out: tuple[str, ...] = ()
    """Absolute folders that are never part of a snapshot (experiments, logs, caches, data)."""


class Recipe(Protocol):
    """What ``Experiment.add`` accepts."""

    @property
    def name(self) -> str:
        """Default name of the task."""

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """The task.

        Raises:
            InputError: every reason why it cannot run.
        """


@dataclass(frozen=True)
class Script:
    """A script file, or a script given as text, with its arguments. Never imported or executed by the launcher.

    Args:
        path: absolute, or relative to the work dir, the current directory or ``recipes/``; ``.py`` runs under Python,
            anything else by its shebang, else by bash (sh where there is no bash).
        inline: the text of a shell script instead of a path.
        args: the script's arguments, passed on untouched.
        env: environment of this task; wins over the executor's. Secret ones (``HF_TOKEN``) travel by name.
        entrypoint: interpreter to use instead (``bash``, ``python``), with its options if it needs any. With it a file
            that has a function ``recipe()`` is a script like any other.
    """

    path: str | None = None
    inline: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    entrypoint: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.args, list):
            object.__setattr__(self, "args", tuple(self.args))
        if isinstance(self.path, os.PathLike):
            object.__setattr__(self, "path", os.fspath(self.path))

    @property
    def name(self) -> str:
        """The file's name without its suffix, or ``script``."""
        path = self.path if isinstance(self.path, str) else ""
        return os.path.splitext(os.path.basename(path))[0] or "script"

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """See ``Recipe.lower``. The code is named and not copied (``packaging.stored`` does that)."""
        from nemo_launch import scripts

        problems = arguments.not_text([("path", self.path), ("inline", self.inline), ("entrypoint", self.entrypoint)])
        if problems:  # then nothing can be looked for
            raise InputError(problems + self._words())
        problems = self._problems()
        path, words = "", []
        try:
            words = shlex.split(self.entrypoint or "")
        except ValueError as error:
            problems.append(Problem(f"{self.entrypoint!r} are no shell words: {error}", "entrypoint"))
        try:
            if self.path:
                path = scripts.find(self.path, site.work_dir)
                if not words:
                    _no_recipe_file(path)
                how = scripts.how(path, words)
                place = scripts.place(path, site.config, site.work_dir, (*site.leave_out, site.snapshots))
            elif self.inline:
                how = scripts.how_text(self.inline, words)
                place = scripts.place_text(
                    self.inline, how, site.config, site.work_dir, (*site.leave_out, site.snapshots)
                )
        except InputError as error:
            problems += error.problems
        except OSError as error:  # it is gone since it was found, or a link may not be followed
            if error.filename is None:
                raise
            problems.append(Problem(f"cannot read {os.fsdecode(error.filename)}: {error.strerror}", "script"))
        if problems:
            raise InputError(problems)

        if how.language == "python":
            place = scripts.with_editable(place, site.config)
        plain, secret = environment.split(self.env)
        return Task(
            name=name,
            recipe=path or "inline",
            language=how.language,
            argv=(place.script(site.snapshots), *self.args),
            interpreter=how.interpreter,
            env=plain,
            secrets=tuple(secret),
            secret_values=secret,
            code=place.codes,
            pythonpath=place.pythonpath(site.snapshots) if how.language == "python" else (),
            work_dir=site.work_dir,
            after=after,
        )

    def _problems(self) -> list[Problem]:
        """What can be said without looking at files."""
        found = []
        if self.path and self.inline:
            found.append(Problem("a script has a path or is given as text, not both", "Script", "Leave one out."))
        if not self.path and not self.inline:
            what = "the script's path is empty" if self.path == "" else "no script is given"
            fix = "Name a file (-s pretrain/llama.py, path=) or give its text (inline=)."
            found.append(Problem(what, "script", fix))
        if self.inline and "\0" in self.inline:
            found.append(Problem("the script has a NUL byte, which no shell reads", "inline"))
        return found + self._words()

    def _words(self) -> list[Problem]:
        """What is wrong with the arguments and the environment."""
        found = []
        if isinstance(self.args, str) or not isinstance(self.args, Sequence):
            found.append(Problem(f"{self.args!r} is not a list of words", "args", "Write args=[...]."))
        else:
            for number, arg in enumerate(self.args):
                if not isinstance(arg, str):
                    what = f"{arg!r} is {type(arg).__name__}, not text"
                    found.append(Problem(what, f"args[{number}]", "Write str(...) around it."))
                elif "\0" in arg:
                    found.append(Problem(f"{arg!r} has a NUL byte, which no argument can carry", f"args[{number}]"))
                else:
                    found += arguments.not_text([(f"args[{number}]", arg)])
        return found + env_problems(self.env)


def _no_recipe_file(path: str) -> None:
    """A recipe file run as a script would do nothing and succeed.

    Raises:
        InputError: it is one.
    """
    from nemo_launch.buildables import files

    if files.is_recipe_file(path):
        fix = "Write nemo_launch.RecipeFile(FILE), or Script(FILE, entrypoint='python') to run it as a plain script."
        raise InputError(Problem(f"{path} is a recipe file: its recipe() says what to run", "script", fix))


def env_problems(env: Any) -> list[Problem]:
    """What is wrong with the environment that a recipe is given."""
    if not isinstance(env, Mapping):
        return [Problem(f"it is {type(env).__name__}, not a dict", "env")]
    found = []
    texts = {n: v for n, v in env.items() if isinstance(n, str) and isinstance(v, str)}
    for key in env.keys() - texts.keys():
        found.append(Problem(f"name and value of {key!r} must both be text", "env", "Write str(...) around it."))
    halves = {n for n, v in texts.items() if not (arguments.encodable(n) and arguments.encodable(v))}
    for key in sorted(halves):
        found.append(Problem(f"{key!r} has a lone surrogate, which no environment can carry", "env"))
    _, secret = environment.split({n: v for n, v in texts.items() if n not in halves})
    return found + environment.problems(texts, (), secret)


def of(value: Any, where: str) -> Recipe:
    """What ``Experiment.add`` takes, as a recipe: besides recipes fiddle's ``Partial``, and NeMo-Run's objects.

    Raises:
        InputError: it is none.
    """
    if any(kind.__name__ == "Buildable" and kind.__module__.startswith("fiddle.") for kind in type(value).__mro__):
        from nemo_launch.buildables.recipe import PythonRecipe

        made: Recipe = PythonRecipe(value)
        return made
    script = nemo_run_script(value)
    if script is not None:
        return script
    arguments.recipe(value, where)
    taken: Recipe = value
    return taken


def nemo_run_script(value: Any) -> Script | None:
    """A ``Script`` of the real NeMo-Run as ours; None: it is something else.

    Raises:
        InputError: it runs a module (``m=True``).
    """
    if type(value).__name__ != "Script" or type(value).__module__.partition(".")[0] != "nemo_run":
        return None
    if value.m:
        fix = "Write Script(inline='exec python -m MODULE \"$@\"', args=…)."
        raise InputError(Problem("m=True is not supported here", "Script", fix))
    entrypoint = value.entrypoint if value.entrypoint != "bash" else None  # its default, and ours for what is no Python
    return Script(value.path or None, value.inline or None, value.args, value.env, entrypoint)
