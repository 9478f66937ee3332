"""One duration type with one parser, for every time limit and margin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

_FORMS = "minutes (90), MM:SS (4:00), HH:MM:SS (1:00:00), D-HH (2-12), D-HH:MM, D-HH:MM:SS (1-02:03:04)"


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time in whole seconds.

    Text is read as Slurm reads ``--time`` (sbatch manual, option ``-t``): ``90`` is minutes, ``4:00`` minutes and
    seconds, ``1:00:00`` hours, ``2-12`` days and hours. Fields after the first must be in range
    (``0:240:0`` is refused: Slurm would accept it, and the reader would guess).
    """

    seconds: int

    @classmethod
    def parse(cls, value: object) -> Duration:
        """Make a duration from text, ``timedelta`` or another Duration.

        Raises:
            ValueError: not a duration; the message names the valid forms.
        """
        if isinstance(value, Duration):
            return value
        if isinstance(value, timedelta):
            seconds = value.total_seconds()
            if seconds <= 0 or seconds != int(seconds):
                raise ValueError(f"{value!r} is not a positive whole number of seconds")
            return cls(int(seconds))
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            # YAML 1.1 reads an unquoted 12:00:00 as the integer 43200, which would be 43200 minutes here.
            raise ValueError(
                f"{value} is a bare number, which YAML also makes of times such as 12:00:00: "
                f"quote it, as in {_guess(value)}"
            )
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a duration; valid forms: {_FORMS}")
        return cls(_seconds(value.strip()))

    def __str__(self) -> str:
        """The one normal form: ``[D-]HH:MM:SS``, which sbatch reads back as the same length."""
        minutes, seconds = divmod(self.seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        clock = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
        return f"{days}-{clock}" if days else clock

    @property
    def timedelta(self) -> timedelta:
        """The same length as a ``datetime.timedelta``."""
        return timedelta(seconds=self.seconds)


def _guess(number: int) -> str:
    """What was probably typed: YAML 1.1 counts ``a:b:c`` in base 60."""
    minutes, seconds = divmod(number, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f'"{hours}:{minutes:02d}:{seconds:02d}"'
    return f'"{minutes}:{seconds:02d}" or "{number}"' if minutes else f'"{number}"'


def _seconds(text: str) -> int:
    # ASCII digits only: str.isdigit and \d accept others that sbatch does not. Seven are 27000 years in days.
    match = re.fullmatch(r"(?:([0-9]{1,7})-)?([0-9]{1,7})(?::([0-9]{1,7}))?(?::([0-9]{1,7}))?", text)
    bad = ValueError(f"{text[:40]!r} is not a duration; valid forms: {_FORMS}")
    if not match:
        raise bad
    days, *rest = match.groups()
    fields = [int(field) for field in rest if field is not None]
    if days is not None:
        hours, minutes, seconds = (fields + [0, 0])[:3]
        in_range = hours < 24 and minutes < 60 and seconds < 60
        total = ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    elif len(fields) == 3:
        hours, minutes, seconds = fields
        in_range = minutes < 60 and seconds < 60
        total = (hours * 60 + minutes) * 60 + seconds
    else:
        minutes, seconds = (fields + [0])[:2]
        in_range = seconds < 60
        total = minutes * 60 + seconds
    if not in_range or total <= 0:
        raise bad
    return total
