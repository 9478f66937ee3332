"""``run.py list [TITLE]``: experiments and their states."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from nemo_launch.cli import output
from nemo_launch.cli.parser import verb_parser

if TYPE_CHECKING:
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.experiments.observing import TaskStatus


def run(prog: str, argv: list[str]) -> int:
    """Print one line for each experiment, the newest last; one question to the scheduler for all of them."""
    parser = verb_parser(prog, "list")
    parser.add_argument("title", nargs="?", help="only experiments of this title")
    parser.add_argument("--limit", type=_positive, default=20, metavar="N", help="the newest N (default 20)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.whole(argv)

    from nemo_launch import layout
    from nemo_launch.errors import NotFound, Problem, RecordError
    from nemo_launch.experiments import catalog
    from nemo_launch.experiments.asked import observe_all
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.views import errors, json

    home, title = layout.home(), asked.title or ""
    there = catalog.count(home, title)
    if title and not there:
        if catalog.is_id(title):
            raise NotFound(Problem(f"{title!r} is an id, not a title", "list", f"{prog} status {title} shows it."))
        if not asked.json:
            raise catalog.not_found(title)
    found = []
    for id in [*islice(catalog.newest(home, title), asked.limit)][::-1]:
        try:
            experiment = Experiment.from_id(id)
            experiment.jobs()
            found.append(experiment)
        except RecordError as error:  # one damaged record must not hide the others
            output.tell(errors.note(prog, f"left out {id}: {error}"))
    seen = observe_all(found)
    if asked.json:
        output.say(json.dumps(json.experiments((experiment, seen[experiment.id]) for experiment in found)))
        return 0
    if not there:
        output.tell(f"{prog}: no experiments yet\n")
        return 0
    output.show_table(("EXPERIMENT", "STARTED", "EXECUTOR", "STATES"), [_row(e, seen[e.id]) for e in found])
    if there > asked.limit:
        output.tell(f"{prog}: {there - asked.limit} older ones are not shown; --limit {there} shows all\n")
    return 0


def _row(experiment: Experiment, statuses: Sequence[TaskStatus]) -> tuple[str, str, str, str]:
    import time

    states = Counter(str(status.observation.state) for status in statuses)
    words = [state if len(statuses) == 1 else f"{count} {state}" for state, count in states.items()]
    executors = dict.fromkeys(status.executor.kind for status in statuses)
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(experiment.created))
    return experiment.id, started, ", ".join(executors), ", ".join(words)


def _positive(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
