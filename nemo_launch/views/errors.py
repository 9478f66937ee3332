"""Errors as people read them: one short paragraph each, without a traceback."""

from __future__ import annotations

import re

from nemo_launch.errors import InputError

_BLANK_LINES = re.compile(r"\n\s*\n")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def paragraphs(prog: str, error: BaseException) -> str:
    """The text for standard error: a paragraph for each problem, each starting ``run.py: error:``."""
    problems = [str(problem) for problem in error.problems] if isinstance(error, InputError) else [str(error)]
    return "".join(f"{prog}: error: {one_paragraph(text)}\n" for text in problems)


def note(prog: str, text: str) -> str:
    """A line that informs and is no error."""
    return f"{prog}: {one_paragraph(text)}\n"


def unexpected(prog: str, error: BaseException) -> str:
    """For what should never happen."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"{prog}: error: {one_paragraph(what)}. This is a bug in nemo_launch, not in your request; "
        "the same command with --debug shows where it happened, for a report.\n"
    )


def one_paragraph(text: str) -> str:
    """Text without blank lines and without characters that would steer a terminal."""
    return _CONTROL.sub(lambda c: f"\\x{ord(c.group()):02x}", _BLANK_LINES.sub("\n", text.strip()))
