"""``run.py cancel ID [TASK]``: end tasks for sure."""

from __future__ import annotations

from nemo_launch.cli import output, verbs
from nemo_launch.cli.parser import verb_parser


def run(prog: str, argv: list[str]) -> int:
    """End the tasks that have not ended, and print what all of them are afterwards."""
    parser = verb_parser(prog, "cancel", epilog="Tasks that have ended keep their result.")
    parser.add_argument("experiment", help="id, or title for its newest")
    parser.add_argument("task", nargs="?", help="name or number of a task (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.whole(argv)

    from nemo_launch.views import json

    experiment = verbs.experiment(asked.experiment)
    statuses = experiment.cancel(verbs.task(experiment, asked.task) if asked.task is not None else None)
    if asked.json:
        output.say(json.dumps(json.experiment(experiment, statuses)))
    else:
        output.show_block(prog, experiment, statuses)
    return 0
