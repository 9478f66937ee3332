"""``run.py logs [ID] [TASK]``: what the tasks print."""

from __future__ import annotations

import argparse

from nemo_launch.cli import output, verbs
from nemo_launch.cli.parser import verb_parser


def run(prog: str, argv: list[str]) -> int:
    """Print logs; with ``-f`` until the tasks have ended, then 1 unless they succeeded."""
    parser = verb_parser(
        prog, "logs", epilog="With -f the exit code is 1 unless all tasks succeeded; Ctrl-C only detaches."
    )
    parser.add_argument("experiment", nargs="?", help="id, or title for its newest (default: the newest of all)")
    parser.add_argument("task", nargs="?", help="name or number of a task (default: all)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the tasks have ended")
    parser.add_argument("--rank", type=_count, metavar="R", help="only the log of this rank (process number)")
    parser.add_argument("--node", metavar="NAME", help="only lines from this node")
    parser.add_argument("--lines", type=_count, metavar="N", help="begin with the newest N lines")
    parser.add_argument(
        "--attempt",
        type=_attempt,
        metavar="N",
        help="of a task that was started again: 1 is its first start, all shows them all (default: the newest)",
    )
    asked = parser.whole(argv)

    from nemo_launch import logs
    from nemo_launch.errors import InputError, Problem
    from nemo_launch.views import errors

    if asked.rank is not None and asked.node is not None:
        raise InputError(Problem("a rank runs on one node: its log is all from there", "--rank, --node", "Give one."))

    experiment = verbs.experiment(asked.experiment)
    names = [verbs.task(experiment, asked.task)] if asked.task is not None else experiment.task_names
    try:
        statuses = logs.show(
            experiment,
            names,
            follow=asked.follow,
            rank=asked.rank,
            node=asked.node,
            lines=asked.lines,
            attempt=asked.attempt,
            write=lambda text: output.say(text, exact=True),
            tell=lambda text: output.tell(errors.note(prog, text)),
        )
    except InputError as error:
        flags = {"rank": "--rank", "node": "--node", "attempt": "--attempt"}
        raise InputError([p._replace(where=flags.get(p.where, p.where)) for p in error.problems]) from None
    except KeyboardInterrupt:
        if not asked.follow:
            raise
        from nemo_launch.cli.waiting import detached

        return detached(prog, experiment)
    from nemo_launch.cli import waiting

    for status in statuses:
        for text in waiting.known(status):
            output.tell(f"{prog}: {text}\n")
    return verbs.verdict(statuses) if asked.follow else 0


def _attempt(text: str) -> int | str:
    if text == "all":
        return text
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on, nor all")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
