"""What can go wrong, as one tree; each class owns the exit code that ``run.py`` ends with.

::

    LaunchError                exit 1   root of everything this package raises on purpose
    ├── InputError             exit 2   the request cannot work as asked; nothing was done
    │   └── NotFound           exit 2   no such experiment, task, profile
    ├── RecordError            exit 2   the local experiment directory cannot be read or written
    └── SchedulerError         exit 3   the scheduler refused or is out of reach
        ├── SchedulerRefused   exit 3   it answered no
        └── Unreachable        exit 3   it did not answer (``transient``: asking again may help)

A message is one short paragraph: what, where (file, key, value), what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One thing wrong with a request. ``where`` names the flag, field or file; ``fix`` says what to do."""

    what: str
    where: str = ""
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text.rstrip('.')}. {self.fix}" if self.fix else text


class LaunchError(Exception):
    """Root of the errors that this package raises on purpose."""

    exit_code = 1
    #: Asking again later, unchanged, may succeed.
    transient = False


class InputError(LaunchError):
    """The request cannot work as asked. Carries every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class NotFound(InputError):
    """No experiment, task or profile of that name."""


class RecordError(LaunchError):
    """The experiment directory cannot be read or written (full, read-only, damaged)."""

    exit_code = 2


class SchedulerError(LaunchError):
    """The scheduler did not do what was asked."""

    exit_code = 3


class SchedulerRefused(SchedulerError):
    """The scheduler answered and said no; its own words are in the message."""


class Unreachable(SchedulerError):
    """The scheduler did not answer."""

    transient = True
