"""When a job that ended is started again: the causes, and for errors the exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nemo_launch.config.hints import did_you_mean

#: What can end a job before its work is done, as ``resume_on`` names it.
CAUSES = ("preempted", "timeout", "node_fail", "error")
#: How often a task is started again at most, unless ``max_restarts`` says otherwise.
MAX_RESTARTS = 10
_NEVER = "never"
_FORM = "write some of preempted, timeout, node_fail, error and error:CODE,CODE with commas between them, or never"


@dataclass(frozen=True)
class ResumeOn:
    """Causes after which a job is started again; none of them: never.

    As text, the causes with commas between them: ``timeout,preempted``, ``error`` (whatever the exit code) or
    ``error:1,7`` (only these exit codes), ``never``.
    """

    causes: tuple[str, ...] = ()
    """In the order of ``CAUSES``."""
    codes: tuple[int, ...] = ()
    """Exit codes that count as ``error``; empty: all but 0."""

    @classmethod
    def parse(cls, value: object) -> ResumeOn:
        """Read text, a list of such texts, or another ResumeOn.

        Raises:
            ValueError: not such a text; the message says which word is wrong and what there is.
        """
        if isinstance(value, ResumeOn):
            return value
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
            raise ValueError(f"{value!r} names no causes: {_FORM}")
        found: set[str] = set()
        codes: set[int] = set()
        errors = False
        for word in _words(entries):
            cause, colon, code = word.partition(":")
            if colon and cause != "error":
                raise ValueError(f"{word!r}: only error takes exit codes, as in error:1,7")
            if errors and re.fullmatch("[0-9]+", word):
                cause, colon, code = "error", ":", word
            errors = cause == "error" and bool(colon)
            if errors:
                codes.add(_code(code))
            elif cause != _NEVER and cause not in CAUSES:
                hint = did_you_mean(cause, (*CAUSES, _NEVER))
                raise ValueError(f"{word!r} is no cause to start a job again. {hint or _FORM[0].upper() + _FORM[1:]}")
            found.add(cause)
        if _NEVER in found and len(found) > 1:
            raise ValueError(f"never stands alone: {_FORM}")
        return cls(tuple(cause for cause in CAUSES if cause in found), tuple(sorted(codes)))

    def __str__(self) -> str:
        """The one normal form, which ``parse`` reads back."""
        codes = f":{','.join(map(str, self.codes))}" if self.codes else ""
        return ",".join(f"{cause}{codes if cause == 'error' else ''}" for cause in self.causes) or _NEVER

    def __bool__(self) -> bool:
        return bool(self.causes)


def _words(entries: Iterable[str]) -> list[str]:
    words = [word.strip() for entry in entries for word in entry.split(",")]
    if not words or not all(words):
        raise ValueError(f"an empty word names no cause: {_FORM}")
    return words


def _code(text: str) -> int:
    if not re.fullmatch("[0-9]{1,3}", text) or not 1 <= int(text) <= 255:
        raise ValueError(f"{text!r} is no exit code from 1 to 255")
    return int(text)
