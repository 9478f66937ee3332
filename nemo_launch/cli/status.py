"""``run.py status [ID|TITLE …]``: the truth about tasks now."""

from __future__ import annotations

from nemo_launch.cli import output, verbs
from nemo_launch.cli.parser import verb_parser


def run(prog: str, argv: list[str]) -> int:
    """Print the block of each experiment; 0 when the question was answered, whatever the answer.

    With ``--wait`` 1 unless all tasks succeeded.
    """
    parser = verb_parser(
        prog, "status", epilog="Exit code 0: the question was answered; with --wait 1 unless all tasks succeeded."
    )
    parser.add_argument("experiment", nargs="*", help="id, or title for its newest (default: the newest of all)")
    parser.add_argument("--wait", action="store_true", help="wait until all tasks have ended")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.whole(argv)

    from nemo_launch.experiments.experiment import observe_all
    from nemo_launch.views import json

    found = [verbs.experiment(text) for text in asked.experiment or [None]]
    chosen = list({experiment.id: experiment for experiment in found}.values())
    seen = {experiment.id: experiment.wait() for experiment in chosen} if asked.wait else observe_all(chosen)
    if asked.json:
        entries = [(experiment, seen[experiment.id]) for experiment in chosen]
        output.say(json.dumps(json.experiment(*entries[0]) if len(entries) == 1 else json.experiments(entries)))
    else:
        for number, experiment in enumerate(chosen):
            output.say("\n" if number else "")
            output.show_block(prog, experiment, seen[experiment.id])
    return max(verbs.verdict(statuses) for statuses in seen.values()) if asked.wait else 0
