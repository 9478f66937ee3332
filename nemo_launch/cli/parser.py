"""The command line as argparse sees it: launch flags here, one parser for each verb in its module."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NoReturn

from nemo_launch.errors import InputError, Problem

if TYPE_CHECKING:
    from nemo_launch.cli.flags import Flag

VERBS = {
    "finetune": "AutoModel: finetune llm -c FILE (see -c); also pretrain, kd and benchmark",
    "status": "state of an experiment's tasks",
    "logs": "what the tasks print",
    "cancel": "end tasks for sure",
    "list": "experiments and their states",
    "show": "an experiment's record, script or configuration",
    "profiles": "the named executors of profiles.yaml",
    "import-image": "turn an image of a registry into a .sqsh file, by a Slurm job",
}

#: Those of AutoModel: each is followed by a domain, as in ``finetune llm`` (see ``automodel.commands``).
COMMANDS = ("finetune", "pretrain", "kd", "benchmark")

#: Commands of other versions: whoever has read of them should not be told that a script is missing.
LATER = ("rl", "attach", "node-shell")

_EPILOG = """\
examples:
  run.py -s pretrain/llama_tiny_pt.py --ntasks-per-node 2 step_scheduler.max_steps=40
  run.py -e slurm -p a3m -d $WORK_DIR -s pretrain/llama_tiny_pt.py -n 2 --experiment-name demo
  run.py -s train.py -- --lr 1e-3 optimizer=adam      (words after -- go to the script untouched)

exit codes:
  0 done   1 the run failed (--wait, --follow)   2 bad input   3 the scheduler refused or is unreachable
  4 the output cannot be written (what was launched goes on)   130 interrupted

other commands (run.py COMMAND --help tells more):
"""


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, whose complaints are our errors."""

    def __init__(self, prog: str, verb: str = "", **kwargs: object) -> None:
        self._verb = verb
        super().__init__(prog=f"{prog} {verb}".rstrip(), allow_abbrev=False, formatter_class=_formatter, **kwargs)  # type: ignore[arg-type]

    def whole(self, argv: list[str]) -> argparse.Namespace:
        """Parse all words; none of them may be empty.

        An empty word is what an unset shell variable leaves, and must not be taken for one that was not typed:
        ``cancel "$EXP"`` would end the newest experiment.

        Raises:
            InputError: the words are not right.
        """
        asked = self.parse_args(argv)
        problems = [
            Problem("its value is empty", _shown(action), "Is a variable unset?")
            for action in self._actions
            if _blank(getattr(asked, action.dest, None))
        ]
        if problems:
            raise InputError(problems)
        return asked

    def error(self, message: str) -> NoReturn:
        """See the base class; also for values that look like flags."""
        raise InputError(Problem(*self._explained(message)))

    def _explained(self, message: str) -> tuple[str, str, str]:
        stray, prefix = "unrecognized arguments: ", "argument "
        help_tells = f"{self.prog} --help lists what can be given."
        if message.startswith(stray):
            from nemo_launch.config.hints import did_you_mean

            word = message[len(stray) :].split(" ")[0].split("=")[0]
            if not _looks_like_flag(word):
                return f"{word!r} is one word too many", self._verb, help_tells
            near = did_you_mean(word, self._option_string_actions) if word.startswith("--") else ""
            return f"there is no flag {word}", self._verb, near or help_tells
        if message.startswith(prefix) and ": " in message:
            name, what = message[len(prefix) :].split(": ", 1)
            long = name.rsplit("/", 1)[-1]
            if what == "expected one argument":
                return "it needs a value", name, f"A value that starts with a dash is written {long}=VALUE."
            if what.startswith("ignored explicit argument "):
                return f"it takes no value, and {what.split(' ', 3)[3]} was given", name, ""
            return what, name, ""
        return message, self._verb, help_tells


def _blank(value: object) -> bool:
    words = value if isinstance(value, list) else [value]
    return any(isinstance(word, str) and not word.strip() for word in words)


def _shown(action: argparse.Action) -> str:
    return "/".join(action.option_strings) or action.dest


def _formatter(prog: str) -> argparse.HelpFormatter:
    # argparse itself imports shutil, and with it every compression module, to learn the width of the terminal
    try:
        width = int(os.environ.get("COLUMNS", "")) or 100
    except ValueError:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=max(40, min(width, 110)) - 2)


def launch_parser(prog: str) -> Parser:
    """The parser of a launch. It has no positionals: what it leaves over goes to the script."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {what}" for verb, what in VERBS.items())
    parser = Parser(
        prog,
        usage=f"{prog} [flags] -s SCRIPT [arguments of the script]\n"
        f"       {prog} [finetune llm] [flags] -c FILE [overrides]\n       {prog} COMMAND …",
        description="Start a training script here or on Slurm, and show how it is doing.",
        epilog=_EPILOG.replace("run.py", prog) + verbs,
    )
    from nemo_launch.cli.flags import GROUPS

    for title, flags in GROUPS.items():
        group = parser.add_argument_group(title)
        for flag in flags:
            add_flag(group, flag)
    return parser


def add_flag(parser: argparse._ActionsContainer, flag: Flag) -> None:
    """Let a parser, or a group of one, know a launch flag."""
    if flag.metavar:
        action = "append" if flag.repeat else "store"
        parser.add_argument(*flag.names, dest=flag.dest, metavar=flag.metavar, action=action, help=flag.help)
    else:
        parser.add_argument(*flag.names, dest=flag.dest, action="store_true", help=flag.help)


def verb_parser(prog: str, verb: str, **kwargs: object) -> Parser:
    """A parser for one verb, with the switches that all share."""
    parser = Parser(prog, verb, description=VERBS[verb][0].upper() + VERBS[verb][1:] + ".", **kwargs)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def split_launch(prog: str, argv: list[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Parsed flags, the script's own words in their order, and words that look like flags but are none of ours."""
    end = argv.index("--") if "--" in argv else len(argv)
    flags, rest = launch_parser(prog).parse_known_args(argv[:end])
    unknown = [word for word in rest if _looks_like_flag(word)]
    script = next((i for i, word in enumerate(argv[:end]) if word.startswith(("-s", "--script"))), 0)
    if rest and not unknown:
        for word in launch_parser(prog).parse_known_args(argv[:script])[1]:
            _no_verb(prog, word)
    return flags, [*rest, *argv[end + 1 :]], unknown


def _no_verb(prog: str, word: str) -> None:
    """Whoever mistypes a command, or gives it after flags, should not start a job with it as argument.

    Raises:
        InputError: a word before the script that is, or is close to, a command.
    """
    from nemo_launch.config.hints import nearest

    verb = None if "=" in word else nearest(word, VERBS)
    if verb:
        what = f"{word!r} comes before the script, where commands are given"
        fix = f"Did you mean {prog} {verb}? An argument of the script goes after --: {prog} -s SCRIPT -- {word}"
        raise InputError(Problem(what, "", fix))


def _looks_like_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not word[1].isdigit() and word[1] != "."


def known_flags() -> list[str]:
    """Every spelling of every launch flag."""
    from nemo_launch.cli.flags import FLAGS

    return [name for flag in FLAGS for name in flag.names] + ["-h", "--help"]
