"""``run.py list [TITLE]``: experiments and their states."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
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

    from nemo_launch.errors import RecordError
    from nemo_launch.experiments.experiment import Experiment, observe_all
    from nemo_launch.views import errors, json

    ids = Experiment.catalog(asked.title or "")
    found = []
    for id in ids[-asked.limit :]:
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
    if not ids:
        Experiment.find(asked.title) if asked.title else output.tell(f"{prog}: no experiments yet\n")
        return 0
    output.show_table(("EXPERIMENT", "STARTED", "EXECUTOR", "STATES"), [_row(e, seen[e.id]) for e in found])
    if len(ids) > asked.limit:
        output.tell(f"{prog}: {len(ids) - asked.limit} older ones are not shown; --limit {len(ids)} shows all\n")
    return 0


def _row(experiment: Experiment, statuses: Sequence[TaskStatus]) -> tuple[str, str, str, str]:
    import time

    states = Counter(str(status.observation.state) for status in statuses)
    words = [state if len(statuses) == 1 else f"{count} {state}" for state, count in states.items()]
    second = int(experiment.id.rpartition("_")[2])
    executors = dict.fromkeys(status.executor.kind for status in statuses)
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
    return experiment.id, started, ", ".join(executors), ", ".join(words)


def _positive(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
