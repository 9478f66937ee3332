"""``run.py finetune llm -c FILE …`` and ``run.py -c FILE …``: what an AutoModel YAML asks for, as a request."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from nemo_launch.automodel.commands import MODULES, USUAL
from nemo_launch.automodel.files import File, read
from nemo_launch.cli import values as typed
from nemo_launch.cli.flags import BY_FIELD, FLAGS
from nemo_launch.config.executor import CONFIGS
from nemo_launch.config.hints import did_you_mean
from nemo_launch.errors import InputError, Problem

if TYPE_CHECKING:
    from nemo_launch.cli.request import Request
    from nemo_launch.config.layers import Merged
    from nemo_launch.config.sections import Section


Command = tuple[str, str] | None


def run(prog: str, argv: list[str]) -> int:
    """``finetune llm -c FILE``: the same as ``-c FILE`` where the file does not say what runs."""
    from nemo_launch.cli import launch

    words, rest = argv[:2], argv[2:]
    if len(words) < 2 or (words[0], words[1]) not in MODULES:
        known = ", ".join(f"{command} {domain}" for command, domain in MODULES)
        raise InputError(Problem(f"{' '.join(words)!r} is no command", "", f"There are {known}, each with -c FILE."))
    end = rest.index("--") if "--" in rest else len(rest)
    # AutoModel's own spelling; elsewhere --config is a file of executor settings
    given = ["-c" if word == "--config" else word for word in rest[:end]]
    given = [f"-c{word[len('--config=') :]}" if word.startswith("--config=") else word for word in given]
    return launch.run(prog, [*given, *rest[end:]], command=(words[0], words[1]))


def file_of(
    prog: str, flags: argparse.Namespace, words: list[str], unknown: list[str], command: Command
) -> tuple[File | None, list[Problem]]:
    """The file and what is wrong with it, and with the words behind it."""
    problems = []
    if flags.script:
        fix = "Keep one: -c runs what the file says, -s a script."
        problems.append(Problem("-c and -s exclude each other", "-c", fix))
    if flags.c is None:
        what = f"{' '.join(command or USUAL)} needs a file that says what to train"
        return None, [Problem(what, "-c", f"Add -c FILE: {prog} {' '.join(command or USUAL)} -c config.yaml")]
    if not flags.c.strip():
        return None, [*problems, Problem("its value is empty", "-c", "Is a variable unset?")]
    try:
        file = read(flags.c, words, command)
    except InputError as error:
        return None, [*problems, *error.problems]
    return file, problems + _no_overrides(prog, file, unknown)


def _no_overrides(prog: str, file: File, unknown: list[str]) -> list[Problem]:
    """Flags that are none of ours and set nothing that the recipe has: most likely mistyped."""
    from nemo_launch.automodel.overrides import pairs

    found = []
    for key, _, word in pairs(file.words):
        if word in unknown and "." not in key and key not in file.document.values:
            name = word.partition("=")[0]
            near = did_you_mean(name, [name for flag in FLAGS for name in flag.names if name.startswith("--")])
            near = near or did_you_mean(key, map(str, file.document.values))
            own = f"What the recipe alone knows goes after --: {prog} -c FILE -- {word}"
            found.append(Problem(f"neither {prog} nor the recipe has {name}", "", f"{near} {own}".strip()))
    return found


def inside(prog: str, flags: argparse.Namespace, words: list[str], unknown: list[str], command: Command) -> int:
    """Run it in this process, which torchrun started."""
    from nemo_launch.automodel import inside

    file, problems = file_of(prog, flags, words, unknown, command)
    for flag in FLAGS:
        if flag.names[0] not in ("-c", "--debug", "-s") and getattr(flags, flag.dest) not in (None, False, []):
            what = "it has no effect inside torchrun, which has started the processes already"
            problems.append(Problem(what, flag.shown, "Leave it out."))
    if problems or file is None:
        raise InputError(problems)
    return inside.run(file, os.environ)


def build(prog: str, flags: argparse.Namespace, words: list[str], unknown: list[str], command: Command) -> Request:
    """The request of a command line with ``-c``.

    Raises:
        InputError: everything that is wrong with it.
    """
    from nemo_launch.automodel import advice
    from nemo_launch.automodel.recipe import AutoModelRecipe
    from nemo_launch.cli import request
    from nemo_launch.config import sections
    from nemo_launch.config.layers import Layer, merge
    from nemo_launch.config.structure import check
    from nemo_launch.executors import factory
    from nemo_launch.experiments.experiment import Experiment

    file, problems = file_of(prog, flags, words, unknown, command)
    problems += [p for p in typed.empty(flags) if p.where != "-c"] + request.modes(flags)
    problems += [
        Problem("it has no effect with -c", name, "Leave it out.")
        for name, value in (
            ("--entrypoint", flags.entrypoint),
            ("--include", flags.include if flags.no_snapshot else 0),
        )
        if value
    ]
    given, more = typed.of_flags(flags)
    problems += more
    section = sections.read(file.document, os.environ) if file else None
    problems += section.problems if section else []
    kind, below, more = request.layers(flags, section.kind if section else "local")
    problems += more
    if section:
        problems += _two_kinds(flags, kind, section)
        kind = section.kind
    layers = [*below, *([section.layer] if section else [])]
    merged = merge([*layers, Layer(lambda key: BY_FIELD[key].shown, given, adds=True)])
    text = {*given, *(section.expanded if section else ())}
    notes: list[str] = []
    if kind == "local":
        _here(merged, notes)
    elif kind == "slurm":
        _gpus(merged, text, section, given)
        if not section:
            request.default_partition(merged)
    config, more = check(CONFIGS[kind], merged.values, merged.place, from_text=text)
    problems += more
    if file is None:
        raise InputError(dict.fromkeys(problems))
    notes += advice.of(file.config, config)
    executor = factory.of(kind, config)
    recipe = AutoModelRecipe(
        file, dict(section.secret_values) if section else {}, section.pythonpath if section else ()
    )
    title = flags.experiment_name or recipe.name
    experiment = Experiment(title, executor)
    experiment.add(recipe, name=title)
    mode = next((mode for mode in ("follow", "wait", "detach") if getattr(flags, mode)), "")
    made = request.Request(
        experiment,
        executor,
        mode or ("follow" if kind == "local" else "detach"),
        _places(merged),
        bool(flags.experiment_name),
        tuple(notes),
        keeps_code=kind == "local",
    )
    return made.without(problems)


def _places(merged: Merged) -> Callable[[str], str]:
    from nemo_launch.cli import request

    return lambda where: "-c" if where == "script" else request.place(merged, where)


def _two_kinds(flags: argparse.Namespace, kind: str, section: Section) -> list[Problem]:
    """A profile of the same kind is what the section builds on; another kind contradicts it."""
    if kind == section.kind:
        return []
    where, given = ("-e/--executor", flags.executor) if flags.executor else ("--config", flags.config)
    what = f"the file has a section {section.kind}, and {given} is for {kind}"
    return [Problem(what, where, f"Leave one of them out: {given} or the section.")]


def _here(merged: Merged, notes: list[str]) -> None:
    """On this machine: a process for each GPU, and no torchrun for a single one."""
    from nemo_launch.automodel import gpus

    if "ntasks_per_node" not in merged.values:
        found = gpus.count(os.environ)
        merged.values["ntasks_per_node"] = max(1, found)
        merged.origin["ntasks_per_node"] = "--nproc-per-node/--ntasks-per-node (the GPUs seen here)"
        if not found:
            notes.append("no GPU is seen here: one process, without torchrun. --nproc-per-node N starts others")
    if merged.values["ntasks_per_node"] in (1, "1"):
        merged.values.setdefault("launcher", "none")


def _gpus(merged: Merged, text: set[str], section: Section | None, given: dict[str, object]) -> None:
    """AutoModel's ``ntasks_per_node`` counts GPUs, too."""
    own = section.layer.values if section else {}
    if "gpus_per_node" in merged.values or not ("ntasks_per_node" in own or "ntasks_per_node" in given):
        return
    merged.values["gpus_per_node"] = merged.values["ntasks_per_node"]
    merged.origin["gpus_per_node"] = merged.place("ntasks_per_node")
    if "ntasks_per_node" in text:
        text.add("gpus_per_node")
