"""From parsed flags to an experiment that is ready to launch; every problem of the request in one error."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import NamedTuple

from nemo_launch.cli import values as typed
from nemo_launch.cli.flags import BY_FIELD
from nemo_launch.cli.parser import LATER, VERBS, known_flags
from nemo_launch.config.executor import CONFIGS, ExecutorConfig, SlurmConfig, no_kind
from nemo_launch.config.hints import did_you_mean
from nemo_launch.config.layers import Layer, Merged, merge, script_block
from nemo_launch.config.structure import check
from nemo_launch.errors import InputError, Problem, SchedulerError
from nemo_launch.executors import factory
from nemo_launch.executors.base import Executor
from nemo_launch.experiments.experiment import Experiment
from nemo_launch.recipes import Recipe, Script

#: What ``-e slurm`` means without a partition anywhere; YAML and Python leave it to the site's default.
DEFAULT_PARTITION = "general"


class Request(NamedTuple):
    """What to launch and how."""

    experiment: Experiment
    executor: Executor
    mode: str
    """``follow``, ``wait`` or ``detach``."""
    place: Callable[[str], str]
    """Where the user gave a field."""
    titled: bool
    """Whether the user gave the title; else the script's name is it."""
    notes: tuple[str, ...] = ()
    keeps_code: bool = False
    """Whether a run that is waited for and fails gives its own exit code, instead of 1."""

    def named(self, error: InputError) -> InputError:
        """The same error in the words of the command line: flags for fields."""
        found = list(error.problems)
        if not self.titled:  # nobody typed a title that could be wrong
            no_script = any(problem.where == "script" for problem in found)
            fix = "Give another name: --experiment-name NAME."
            found = [
                p._replace(where="script", fix=fix) if p.where == "title" else p
                for p in found
                if not (no_script and p.where == "title")
            ]
        return InputError([problem._replace(where=self.place(problem.where)) for problem in found])

    def without(self, problems: list[Problem]) -> Request:
        """The request itself, if nothing is wrong with it so far.

        Raises:
            InputError: these problems, and with them what planning finds.
        """
        if not problems:
            return self
        found = list(problems)
        try:
            self.experiment.plan()
        except InputError as error:
            found += self.named(error).problems
        except SchedulerError:
            pass  # what is wrong with the request does not depend on whether anybody answers
        raise InputError(dict.fromkeys(found))


def build(prog: str, flags: argparse.Namespace, words: list[str], unknown: list[str]) -> Request:
    """The request of a command line.

    Raises:
        InputError: everything that is wrong with it, as far as it can be told without launching.
    """
    if flags.script is None and words[:1] and words[0] in LATER:
        raise InputError(Problem(f"{words[0]} is not in this version", "", f"{prog} --help shows what is."))
    recipe, path, problems = _recipe(flags, words, unknown)
    problems += [_unknown(prog, word, isinstance(recipe, Script)) for word in unknown]
    problems += typed.empty(flags) + modes(flags)
    values, more = typed.of_flags(flags)
    problems += more
    if flags.script is None and not unknown:
        problems.append(_no_script(prog, words))

    kind, given, more = layers(flags)
    problems += more
    notes: list[str] = []
    if path:
        block, more = _block(path, CONFIGS[kind], notes)
        given.insert(0, block)
        problems += more
    merged = merge([*given, Layer(lambda key: BY_FIELD[key].shown, values, adds=True)])
    if kind == "slurm":
        default_partition(merged)
    config, more = check(CONFIGS[kind], merged.values, merged.place, from_text=set(values))
    problems += more + _idle(values, config, path, flags.entrypoint)

    if recipe is None:
        raise InputError(dict.fromkeys(problems))
    executor = factory.of(kind, config)
    title = flags.experiment_name or recipe.name or flags.script
    experiment = Experiment(title, executor)
    experiment.add(recipe, name=title)
    mode = next((mode for mode in ("follow", "wait", "detach") if getattr(flags, mode)), "")
    mode = mode or ("follow" if kind == "local" else "detach")
    request = Request(
        experiment, executor, mode, lambda where: place(merged, where), bool(flags.experiment_name), tuple(notes)
    )
    return request.without(problems)


def place(merged: Merged, where: str) -> str:
    words = {"script": "-s/--script", "title": "--experiment-name", "entrypoint": "--entrypoint"}
    if where in words:
        return words[where]
    if where in merged.origin:
        return merged.place(where)
    return BY_FIELD[where].shown if where in BY_FIELD else where


def _unknown(prog: str, word: str, is_script: bool) -> Problem:
    name = word.split("=", 1)[0]
    near = did_you_mean(name, known_flags()) if name.startswith("--") else ""
    if not is_script:
        return Problem(f"there is no flag {name}", "", near or "Fields of a recipe are set without dashes: NAME=VALUE.")
    own = f"The script's own options go after --: {prog} -s SCRIPT -- {name} …"
    return Problem(f"there is no flag {name}", "", f"{near} {own}".strip())


def _no_script(prog: str, words: list[str]) -> Problem:
    first = words[0] if words else ""
    if first and os.path.exists(first):
        return Problem("there is no script to run", "-s/--script", f"Did you mean {prog} -s {first}?")
    if first in VERBS:  # after flags of a launch
        fix = f"Write {prog} {' '.join(words)}; {prog} {first} --help shows its own flags."
        return Problem(f"the command {first} comes before all flags", "", fix)
    verb = did_you_mean(first, VERBS)
    if first and verb:
        return Problem(f"there is no command {first!r}", "", verb)
    return Problem("there is no script to run", "-s/--script", f"Name one: {prog} -s FILE. {prog} --help tells more.")


def modes(flags: argparse.Namespace) -> list[Problem]:
    given = [f"--{mode}" for mode in ("wait", "follow", "detach") if getattr(flags, mode)]
    return [Problem(f"{' and '.join(given)} exclude each other", "", "Keep one.")] if len(given) > 1 else []


def layers(flags: argparse.Namespace, usual: str = "local") -> tuple[str, list[Layer], list[Problem]]:
    """Kind of executor, and what profile and ``--config`` say."""
    found: list[Layer] = []
    kind, problems = flags.executor, []
    if kind and kind not in CONFIGS:
        from nemo_launch.config import profiles

        try:
            profile = profiles.load(flags.work_dir or ".").resolve(kind)
            kind, found = profile.kind, [profile.layer]
        except InputError as error:
            kind = None
            problems += [p if p.where else p._replace(where="-e/--executor") for p in error.problems]
    if flags.config:
        try:
            kind, layer = _config_file(flags.config, kind)
            found.append(layer)
        except InputError as error:
            problems += error.problems
    return kind or usual, found, problems


def _config_file(path: str, kind: str | None) -> tuple[str | None, Layer]:
    """Fields of a config dataclass; the key ``executor`` names the kind, unless ``-e`` does."""
    from nemo_launch.config import loading

    document = loading.read(path)
    values = {str(key): value for key, value in document.values.items()}
    named = values.pop("executor", None)
    if named is not None and not (isinstance(named, str) and named in CONFIGS):
        raise InputError(no_kind(named, document.where("executor")))
    if named and kind and named != kind:
        what = f"it is written for {named}, and -e asks for {kind}"
        raise InputError(Problem(what, document.where("executor"), "Leave one of them out."))
    return kind or named, Layer(lambda key: f"{document.where(key)}: {key}", values)


def _path(flags: argparse.Namespace) -> str | None:
    """Where the script is; None where it cannot be found: the recipe says why when it is lowered."""
    from nemo_launch import here, scripts

    try:
        return scripts.find(flags.script, here.absolute(flags.work_dir or "."))
    except InputError:
        return None


def _recipe(
    flags: argparse.Namespace, words: list[str], unknown: list[str]
) -> tuple[Recipe | None, str | None, list[Problem]]:
    """What to run, and where its file is; no recipe: none was named. The file is looked at, not executed."""
    if not flags.script:
        return None, None, []
    problems: list[Problem] = []
    path = _path(flags)
    if path and not flags.entrypoint:
        from nemo_launch.buildables import files

        try:
            if files.is_recipe_file(path):
                from nemo_launch.buildables.recipe import RecipeFile

                overrides = tuple(word for word in words if word not in unknown)  # those are told already
                return RecipeFile(flags.script, overrides), path, []
        except InputError as error:
            problems += error.problems
    return Script(flags.script, args=tuple(words), entrypoint=flags.entrypoint or None), path, problems


def _idle(values: dict[str, object], config: ExecutorConfig, path: str | None, entrypoint: str | None) -> list[Problem]:
    """Flags that would do nothing here. The same field in a profile is no mistake: it is for other launches."""
    found = []
    if "container_mounts" in values and isinstance(config, SlurmConfig) and config.container_image is None:
        found.append(Problem("it has no effect without a container", "--mount", "Add -i IMAGE, or leave it out."))
    if "include" in values and not config.snapshot:
        found.append(Problem("it has no effect where no copy is taken", "--include", "Leave out it or --no-snapshot."))
    if (
        "python" in values
        and path
        and getattr(config, "launcher", None) not in ("torchrun", "ft")
        and not _is_python(path, entrypoint)
    ):
        what = f"it has no effect: {path} is no Python script, and torchrun does not start it"
        found.append(Problem(what, "--python", "Leave it out."))
    return found


def _is_python(path: str, entrypoint: str | None) -> bool:
    import shlex

    from nemo_launch import scripts

    try:
        return scripts.how(path, shlex.split(entrypoint or "")).language == "python"
    except (InputError, ValueError):
        return True  # the recipe says why when it is lowered


def _block(path: str, config: type[ExecutorConfig], notes: list[str]) -> tuple[Layer, list[Problem]]:
    """What the script says of itself (PEP 723); read, never executed."""
    from nemo_launch.config import script_metadata

    nothing = Layer("", {})
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            found = script_metadata.read(file.read())
    except OSError:
        return nothing, []  # the recipe says why when it is lowered
    except ValueError as error:
        return nothing, [Problem(str(error), path)]
    if not found:
        return nothing, []
    kept, skipped = script_block(config, found)
    if skipped:
        notes.append(f"{path}: {', '.join(skipped)} of [tool.nemo-launch] is for other executors")
    return Layer(f"{path}: [tool.nemo-launch]", kept), []


def default_partition(merged: Merged) -> None:
    in_job = "SLURM_JOB_ID" in os.environ
    if "partition" not in merged.values and (in_job or not os.environ.get("SBATCH_PARTITION")):
        merged.values["partition"] = DEFAULT_PARTITION
        merged.origin["partition"] = "-p/--partition (run.py's default)"
