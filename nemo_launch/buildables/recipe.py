"""Recipes that are Python objects, and files that return one: to a Task that runs where neither fiddle nor we are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_launch import environment, packaging, scripts
from nemo_launch.buildables import checks, files, loading, overrides, placing, resolved
from nemo_launch.buildables.fields import named
from nemo_launch.errors import InputError, Problem
from nemo_launch.experiments import arguments
from nemo_launch.recipes import Script, Site, env_problems, nemo_run_script
from nemo_launch.task import Task

ENTRY = "recipe.py"
"""The program that runs on the node, among the files that travel."""


@dataclass(frozen=True)
class PythonRecipe:
    """A fiddle ``Partial``, to be built and called where the task runs.

    Args:
        root: the ``Partial`` (this package's, fiddle's or NeMo-Run's), as it is now: later changes do not count.
        env: environment of this task; wins over the executor's. Secret ones travel by name.
    """

    root: Any
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _must_be_partial(self.root, "recipe")
        object.__setattr__(self, "root", _copied(self.root))

    @property
    def name(self) -> str:
        """The function's name."""
        return named(self.root.__fn_or_cls__).rpartition(".")[2].strip("<>") or "recipe"

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """See ``Recipe.lower``."""
        problems = env_problems(self.env)
        try:
            imports = placing.of_objects(self.root, site)
        except InputError as error:
            raise InputError([*problems, *_named(checks.problems(self.root), name), *error.problems]) from error
        what = f"{self.root.__fn_or_cls__.__module__}.{named(self.root.__fn_or_cls__)}"
        return _task(self.root, [], problems, name, what, site, imports, self.env, name, after)


@dataclass(frozen=True)
class RecipeFile:
    """A Python file with a function ``recipe()`` that returns a ``Partial`` (or a ``Script``).

    It is imported where you launch, only to call ``recipe()``.

    Args:
        path: absolute, or relative to the work dir, the current directory or ``recipes/``.
        overrides: words ``key=value`` that set fields of what it returns: ``model.layers=4``.
        env: environment of this task; wins over the executor's. Secret ones travel by name.
    """

    path: str
    overrides: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.path, os.PathLike):
            object.__setattr__(self, "path", os.fspath(self.path))
        if isinstance(self.overrides, list):
            object.__setattr__(self, "overrides", tuple(self.overrides))

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return os.path.splitext(os.path.basename(self.path))[0] or "recipe"

    def lower(self, name: str, site: Site, after: tuple[str, ...] = ()) -> Task:
        """See ``Recipe.lower``."""
        problems = arguments.not_text([("path", self.path)])
        if isinstance(self.overrides, str) or not all(isinstance(word, str) for word in self.overrides):
            fix = "Write overrides=['model.layers=4']."
            problems.append(Problem(f"{self.overrides!r} is not a list of words", "overrides", fix))
        if problems:
            raise InputError(problems)
        problems = env_problems(self.env)
        try:
            path = scripts.find(self.path, site.work_dir)
            if not files.is_recipe_file(path):
                fix = "Write one, or nemo_launch.Script(FILE) for a script."
                raise InputError(Problem(f"{path} has no function recipe() without arguments", "script", fix))
            imports = placing.of_file(path, site)
            with loading.recipe_of(path, imports.here) as root:
                return self._lowered(root, path, problems, name, site, imports, after)
        except InputError as error:
            raise InputError(dict.fromkeys([*problems, *error.problems])) from error

    def _lowered(
        self,
        root: Any,
        path: str,
        problems: list[Problem],
        name: str,
        site: Site,
        imports: placing.Imports,
        after: tuple[str, ...],
    ) -> Task:
        script = root if isinstance(root, Script) else nemo_run_script(root)
        if script is not None:
            if self.overrides:
                what = f"recipe() returns a Script, which has no fields: {self.overrides[0]!r} sets nothing"
                problems = [*problems, Problem(what, path, "Leave it out.")]
            if problems:
                raise InputError(problems)
            return Script(script.path, script.inline, script.args, {**script.env, **self.env}, script.entrypoint).lower(
                name, site, after
            )
        _must_be_partial(root, path)
        return _task(root, self.overrides, problems, name, path, site, imports, self.env, os.path.basename(path), after)


def _task(
    root: Any,
    words: Sequence[str],
    problems: list[Problem],
    name: str,
    what: str,
    site: Site,
    imports: placing.Imports,
    env: Mapping[str, str],
    label: str,
    after: tuple[str, ...],
) -> Task:
    """The task, or all that is wrong with it in one error."""
    from nemo_launch.buildables.encode import encode

    wrong = overrides.apply(root, words)
    places = {problem.where for problem in wrong}
    wrong += [problem for problem in checks.problems(root) if problem.where not in places]
    encoded = None
    try:
        encoded = encode(root, imports.here)
    except InputError as error:
        wrong += error.problems
    problems = [*problems, *_named(wrong, label)]
    if problems or encoded is None:
        raise InputError(dict.fromkeys(problems))
    code = packaging.texts(encoded.files, encoded.notes)
    plain, secret = environment.split(env)
    return Task(
        name=name,
        recipe=what,
        language="python",
        argv=(os.path.join(site.snapshots, code.digest, ENTRY),),
        env=plain,
        secrets=tuple(secret),
        secret_values=secret,
        code=(code, *(one for one in imports.codes if one.files or one.notes)),
        pythonpath=imports.there,
        work_dir=site.work_dir,
        after=after,
        config=resolved.values(root),
    )


def _named(problems: Sequence[Problem], label: str) -> list[Problem]:
    """With the recipe before the place in it: fields of a recipe may be called as fields of an executor are."""
    return [
        problem._replace(where=f"{label}: {problem.where}" if problem.where not in ("", "recipe") else label)
        for problem in problems
    ]


def _must_be_partial(root: Any, where: str) -> None:
    import fiddle as fdl

    if isinstance(root, fdl.Partial):
        return
    if isinstance(root, fdl.Buildable):
        name = named(root.__fn_or_cls__)
        what = f"a {type(root).__name__} of {name} makes an object, and runs nothing"
        fix = f"Give nemo_launch.Partial(FUNCTION, …), a function that works with it, or Partial({name}, …)."
        raise InputError(Problem(what, where, fix))
    what = f"recipe() returns {arguments.shown(root)}"
    raise InputError(Problem(what, where, "Return a nemo_launch.Partial(train, …) or a nemo_launch.Script(…)."))


def _copied(root: Any) -> Any:
    """The configs and containers of a graph copied, what lies in them not; shared ones stay shared."""
    from fiddle import daglish

    def copy(value: Any, state: Any) -> Any:
        return state.map_children(value) if state.is_traversable(value) else value

    try:
        return daglish.MemoizedTraversal.run(copy, root)
    except (RecursionError, ValueError):
        return root  # it contains itself, which is told of when it is lowered
