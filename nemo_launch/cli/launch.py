"""``run.py [flags] -s SCRIPT``: launch, then follow, wait or return."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nemo_launch.cli import output
from nemo_launch.cli.parser import split_launch

if TYPE_CHECKING:
    from nemo_launch.cli import request
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus


def run(prog: str, argv: list[str], command: tuple[str, str] | None = None) -> int:
    """Launch what the command line asks for; ``command``: as in ``finetune llm``."""
    flags, words, unknown = split_launch(prog, argv)
    if flags.version:
        import nemo_launch

        output.say(f"nemo_launch {nemo_launch.__version__}\n")
        return 0
    if command or flags.c is not None:
        return _automodel(prog, flags, words, unknown, command)
    from nemo_launch.cli.request import build

    return go(prog, flags, build(prog, flags, words, unknown))


def _automodel(
    prog: str, flags: argparse.Namespace, words: list[str], unknown: list[str], command: tuple[str, str] | None
) -> int:
    from nemo_launch.automodel import inside
    from nemo_launch.cli import automodel

    if inside.torchrun(os.environ):
        return automodel.inside(prog, flags, words, unknown, command)
    return go(prog, flags, automodel.build(prog, flags, words, unknown, command))


def go(prog: str, flags: argparse.Namespace, asked: request.Request) -> int:
    """Launch a request, or show what would be; then follow, wait or return."""
    from nemo_launch.errors import InputError
    from nemo_launch.views import errors

    for text in asked.notes:
        output.tell(errors.note(prog, text))
    experiment = asked.experiment
    try:
        if flags.dry_run:
            return _dry_run(asked, flags)
        experiment.launch(again=flags.again, tell=lambda text: output.tell(errors.note(prog, text)))
    except InputError as error:
        raise asked.named(error) from None
    if asked.mode == "detach":
        with _confirmed(experiment):
            _say_notes(prog, experiment)
            _show(prog, flags, asked, experiment.statuses())
        return 0
    with _confirmed(experiment):
        _say_notes(prog, experiment)
        hint = "Ctrl-C asks it to end" if asked.executor.kind == "local" else "Ctrl-C detaches"
        output.tell(f"{prog}: launched {experiment.id} ({hint})\n")
    return _see_through(prog, flags, asked)


@contextlib.contextmanager
def _confirmed(experiment: Experiment) -> Iterator[None]:
    """Around telling the user of the launch. That it cannot be told changes nothing: the same command is another one.

    Only whoever is interrupted or killed meanwhile may be told by the same command once more.
    """
    with _going_on(experiment):
        try:
            yield
        except Exception:
            experiment.confirm()
            raise
    experiment.confirm()


@contextlib.contextmanager
def _going_on(experiment: Experiment) -> Iterator[None]:
    try:
        yield
    except output.Unwritable as error:
        raise output.Unwritable(f"{error} {experiment.id} was launched, and goes on.") from error


def _say_notes(prog: str, experiment: Experiment) -> None:
    from nemo_launch.views import errors

    told = [[*(note for code in plan.task.code for note in code.notes), *plan.notes] for plan in experiment.plans]
    for text in dict.fromkeys(note for notes in told for note in notes):  # what holds for many tasks is said once
        output.tell(errors.note(prog, text))
    if experiment.adopted:
        text = f"this launch was interrupted before; going on with {experiment.id}"
        if experiment.ended:
            text += f", which was submitted then and has already ended {experiment.ended}: nothing new runs"
        text += ". --again starts another"
        output.tell(errors.note(prog, text))
    if experiment.stale:
        text = "it was submitted with the code as it was then; files have changed since. --again takes today's"
        output.tell(errors.note(prog, text))


def _see_through(prog: str, flags: argparse.Namespace, asked: request.Request) -> int:
    from nemo_launch.cli import verbs, waiting

    midline = False

    def write(text: str) -> None:
        nonlocal midline
        # with --json standard output is for the document alone
        (output.tell if flags.json else output.say)(text, exact=True)
        midline = not text.endswith("\n")

    show_logs = asked.mode == "follow" and (flags.follow or not flags.json)
    try:
        with _going_on(asked.experiment):
            statuses, interrupted = waiting.to_the_end(prog, asked.experiment, show_logs, write)
    except KeyboardInterrupt:
        return waiting.detached(prog, asked.experiment)
    code = 130 if interrupted else verbs.verdict(statuses)
    if code == 1 and asked.keeps_code:
        code = verbs.own_code(statuses)
    try:
        if show_logs and not flags.json:
            output.say("\n\n" if midline else "\n")
        _show(prog, flags, asked, statuses)
    except output.Unwritable as error:
        if not code:
            raise output.Unwritable(f"{error} {asked.experiment.id} has succeeded.") from error
        output.tell(f"{prog}: {error}\n")  # that the run failed is the news
    for text in waiting.failures(statuses):
        output.tell(f"{prog}: {text}\n")
    return code


def _show(prog: str, flags: argparse.Namespace, asked: request.Request, statuses: list[TaskStatus]) -> None:
    if flags.json:
        from nemo_launch.views import json

        output.say(json.dumps(json.experiment(asked.experiment, statuses, asked.experiment.adopted)))
    else:
        output.show_block(prog, asked.experiment, statuses)


def _dry_run(asked: request.Request, flags: argparse.Namespace) -> int:
    plans = asked.experiment.plan()
    if flags.json:
        from nemo_launch.views import json

        output.say(json.dumps(json.plans(asked.experiment, plans)))
    else:
        from nemo_launch.views import plan

        output.say(plan.render(asked.experiment, plans, asked.executor))
    return 0
