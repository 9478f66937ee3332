"""The command line: ``run.py [flags] -s SCRIPT …`` launches, ``run.py VERB …`` asks about what was launched.

Exit codes: 0 the command did what it says · 1 a run that was waited for failed (or a fault of this program) · 2 bad
input · 3 the scheduler refused or is unreachable · 4 standard output cannot be written (a full disk) · 130 interrupted
· 141 the reader of the output went away. With 4 and 141 what was launched goes on, and is not launched again. Standard
streams that the caller has closed count as ``/dev/null``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

#: What a clone that was never installed may lack, by the name that is imported.
_DEPENDENCIES = {"cattrs": "cattrs", "attr": "attrs", "yaml": "PyYAML", "rich": "rich", "fiddle": "fiddle"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    from nemo_launch.cli import streams

    streams.ensure()
    words = list(sys.argv[1:] if argv is None else argv)
    prog = _prog()
    try:
        return _run(prog, words)
    except BrokenPipeError:
        return 141  # nobody reads on
    except KeyboardInterrupt:
        _complain(f"{prog}: interrupted. What was submitted goes on: {prog} status shows it.\n")
        return 130
    except Exception as error:
        return _failed(prog, words, error)


def _run(prog: str, words: list[str]) -> int:
    from nemo_launch.cli import output

    try:
        code = _dispatch(prog, words)
    except SystemExit as error:  # argparse, after --help
        code = error.code if isinstance(error.code, int) else 1
    output.flush()
    return code


def _dispatch(prog: str, words: list[str]) -> int:
    from nemo_launch.cli.parser import COMMANDS, VERBS

    asks = "-h" in words or "--help" in words
    if words and words[0] in COMMANDS:
        if not asks:
            from nemo_launch.cli import automodel

            return automodel.run(prog, words)
    elif words and words[0] in VERBS:
        from importlib import import_module

        verb = import_module(f"nemo_launch.cli.{words[0].replace('-', '_')}")
        return int(verb.run(prog, words[1:]))
    if asks:
        from nemo_launch.cli.parser import launch_parser

        launch_parser(prog).parse_known_args(words[: words.index("--")] if "--" in words else words)
    from nemo_launch.cli import launch

    return launch.run(prog, words)


def _failed(prog: str, words: list[str], error: Exception) -> int:
    from nemo_launch.errors import LaunchError
    from nemo_launch.views import errors

    if "--debug" in (words[: words.index("--")] if "--" in words else words):
        import traceback

        _complain("".join(traceback.format_exception(error)))
    if isinstance(error, LaunchError):
        _complain(errors.paragraphs(prog, error))
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in _DEPENDENCIES:
        what = f"the Python package {_DEPENDENCIES[error.name]} is missing from {sys.executable}"
        _complain(f"{prog}: error: {what}. Install it there, or call {prog} with the Python that has it.\n")
        return 1
    _complain(errors.unexpected(prog, error))
    return 1


def _complain(text: str) -> None:
    from nemo_launch.cli.output import tell

    tell(text)


def _prog() -> str:
    name = os.path.basename(sys.argv[0] or "run.py")
    return "python -m nemo_launch" if name == "__main__.py" else name
