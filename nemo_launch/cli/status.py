"""``run.py status [ID|TITLE …]``: the truth about tasks now, or (``--watch``) until they have ended."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_launch.cli import output, verbs
from nemo_launch.cli.parser import verb_parser

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus

_EPILOG = """\
Exit code 0: the question was answered; with --wait and --watch 1 unless all tasks succeeded, 130 after Ctrl-C, which
leaves the tasks alone. On a terminal --watch keeps a table up to date; elsewhere it prints a line for each change.
The scheduler is asked after --interval seconds, then more and more rarely, at last every 60 seconds; after a change it
begins anew. That a job has ended is seen in its own files within a second."""


def run(prog: str, argv: list[str]) -> int:
    """Print the block of each experiment; 0 when the question was answered, whatever the answer.

    With ``--wait`` and ``--watch`` 1 unless all tasks succeeded.
    """
    parser = verb_parser(prog, "status", epilog=_EPILOG)
    parser.add_argument("experiment", nargs="*", help="id, or title for its newest (default: the newest of all)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--wait", action="store_true", help="wait until all tasks have ended")
    how.add_argument("--watch", action="store_true", help="show what changes until all tasks have ended")
    parser.add_argument(
        "--interval", type=_seconds, metavar="SECONDS", help="with --wait, --watch: until the second question (10)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.whole(argv)
    _fits(asked)

    from nemo_launch.experiments.asked import observe_all

    found = [verbs.experiment(text) for text in asked.experiment or [None]]
    chosen = list({experiment.id: experiment for experiment in found}.values())
    if asked.watch:
        try:
            statuses = _until_the_end(chosen, asked.interval, watch=True)
        except KeyboardInterrupt:
            return _left(prog, chosen)
        if not output.on_terminal():
            return verbs.verdict(statuses)
        seen = _by_experiment(chosen, statuses)
    elif asked.wait:
        seen = _by_experiment(chosen, _until_the_end(chosen, asked.interval, watch=False))
    else:
        seen = observe_all(chosen)
    if asked.json:
        from nemo_launch.views import json

        entries = [(experiment, seen[experiment.id]) for experiment in chosen]
        output.say(json.dumps(json.experiment(*entries[0]) if len(entries) == 1 else json.experiments(entries)))
    else:
        for number, experiment in enumerate(chosen):
            output.say("\n" if number else "")
            output.show_block(prog, experiment, seen[experiment.id])
    waited = asked.wait or asked.watch
    return max(verbs.verdict(statuses) for statuses in seen.values()) if waited else 0


def _fits(asked: argparse.Namespace) -> None:
    from nemo_launch.errors import InputError, Problem

    problems = []
    if asked.watch and asked.json:
        problems.append(Problem("--watch prints for people", "--json", "--wait --json prints one document at the end."))
    if asked.interval is not None and not (asked.wait or asked.watch):
        problems.append(Problem("it has no effect without --wait or --watch", "--interval", "Add one of them."))
    if problems:
        raise InputError(problems)


def _until_the_end(chosen: Sequence[Experiment], interval: float | None, watch: bool) -> list[TaskStatus]:
    """Wait for all tasks of all experiments, with one question for all of them each time."""
    from nemo_launch.experiments import waiting
    from nemo_launch.experiments.asked import observe_all

    def ask() -> list[TaskStatus]:
        return [status for statuses in observe_all(chosen).values() for status in statuses]

    first = waiting.SCHEDULER[0] if interval is None else interval
    if not watch:
        return waiting.wait(ask, interval=first)
    from nemo_launch.views import watch as views

    if not output.on_terminal():
        return waiting.wait(ask, on_answer=views.Lines(output.say), interval=first)
    with views.screen() as screen:

        def nap(seconds: float) -> None:
            screen.tick()
            time.sleep(seconds)

        return waiting.wait(ask, on_answer=screen, sleep=nap, interval=first)


def _by_experiment(chosen: Sequence[Experiment], statuses: Sequence[TaskStatus]) -> dict[str, list[TaskStatus]]:
    left = iter(statuses)
    return {experiment.id: [next(left) for _ in experiment.task_names] for experiment in chosen}


def _left(prog: str, chosen: Sequence[Experiment]) -> int:
    from shlex import quote

    from nemo_launch.cli import waiting

    if len(chosen) == 1:
        return waiting.detached(prog, chosen[0])
    ids = " ".join(quote(experiment.id) for experiment in chosen)
    output.tell(f"\n{prog}: detached; the tasks go on. To watch again: {output.command(prog)} status --watch {ids}\n")
    return 130


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 1 <= value <= 86400:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
