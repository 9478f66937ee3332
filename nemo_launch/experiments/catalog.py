"""Which experiments there are."""

from __future__ import annotations

import os
from collections.abc import Iterator

from nemo_launch import layout
from nemo_launch.errors import NotFound, Problem, RecordError
from nemo_launch.layout import ExperimentPaths


def ids(home: str, title: str = "") -> list[str]:
    """Ids of all experiments (of a title), oldest first. Folders without a record, or a time, are ignored.

    Of all titles, those of other users that cannot be read are left out with a log warning.

    Raises:
        RecordError: the folder of all, or of that title, cannot be read.
    """
    try:
        return [id for _, id in sorted(_found(home, title))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"cannot read {error.filename}: {error.strerror}.") from error


def _found(home: str, title: str) -> Iterator[tuple[int, str]]:
    folder = layout.experiments(home)
    for name in [title] if title else os.listdir(folder):
        inside = os.path.join(folder, name)
        try:
            names = os.listdir(inside) if os.path.isdir(inside) else []
        except OSError as error:
            if title:
                raise
            _warn(f"left out {inside}: {error.strerror}")
            continue
        for id in names:
            second = id.rpartition("_")[2]
            if second.isdecimal() and len(second) <= 11 and os.path.exists(ExperimentPaths(home, name, id).record):
                yield int(second), id


def _warn(text: str) -> None:
    import logging

    logging.getLogger("nemo_launch").warning("%s", text)


def not_found(text: str) -> NotFound:
    """That there is no such experiment, with near names."""
    import difflib

    known = ids(layout.home())
    titles = list(dict.fromkeys(id.rpartition("_")[0] for id in reversed(known)))
    near = difflib.get_close_matches(text, [*titles, *known], 3)
    hint = f"Near: {', '.join(near)}." if near else "run.py list shows what there is."
    return NotFound(Problem(f"no experiment {text!r} in {layout.experiments(layout.home())}", "", hint))
