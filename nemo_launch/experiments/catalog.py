"""Which experiments there are."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping
from typing import Any

from nemo_launch import layout, records
from nemo_launch.errors import NotFound, Problem, RecordError
from nemo_launch.layout import ExperimentPaths

#: What the number in an id may lag behind the time of the record: writing it takes a while on a slow disk.
_SLACK = 60.0


def ids(home: str, title: str = "") -> list[str]:
    """Ids of all experiments (of a title), oldest first. Folders without a record, or a time, are ignored.

    Of all titles, those of other users that cannot be read are left out with a log warning.

    Raises:
        RecordError: the folder of all, or of that title, cannot be read.
    """
    return [*newest(home, title)][::-1]


def count(home: str, title: str = "") -> int:
    """How many experiments there are (of a title)."""
    return sum(map(len, _titles(home, title).values()))


def newest(home: str, title: str = "") -> Iterator[str]:
    """Ids of all experiments (of a title), newest first, found as they are asked for; raises what ``ids`` does.

    Within a title the ids have the order. Across titles the number in an id does not do, since it runs ahead after
    a burst of launches: the records decide, of which only those are read that can be next.
    """
    titles = _titles(home, title)
    # (minus the time, or what it can be at most; 0 when it is known; title)
    heap = [(-(numbered[-1][0] + _SLACK), 1, name) for name, numbered in titles.items()]
    heapq.heapify(heap)
    while heap:
        _, unknown, name = heapq.heappop(heap)
        numbered = titles[name]
        if unknown and len(titles) > 1:
            heapq.heappush(heap, (-created(ExperimentPaths(home, name, numbered[-1][1])), 0, name))
            continue
        yield numbered.pop()[1]
        if numbered:
            heapq.heappush(heap, (-(numbered[-1][0] + _SLACK), 1, name))


def created(paths: ExperimentPaths, record: Mapping[str, Any] | None = None) -> float:
    """When an experiment was launched, in unix seconds: by its record, else by its id."""
    if record is None:
        try:
            record = records.read_json(paths.record)
        except RecordError:
            record = None
    found = (record or {}).get("created")
    second = paths.id.rpartition("_")[2]
    number = float(second) if second.isdecimal() else 0.0
    # later than the id says was no launcher's doing, and would lead the order astray
    return float(found) if isinstance(found, (int, float)) and found <= number + _SLACK else number


def record_of(id: str) -> tuple[ExperimentPaths, Mapping[str, Any]]:
    """Where the experiment with this id lies, and its record.

    Raises:
        NotFound: there is none; the message names near ones.
    """
    title = id.rpartition("_")[0]
    paths = ExperimentPaths(layout.home(), title, id)
    record = records.read_json(paths.record) if title else None
    if record is not None:
        return paths, record
    if os.sep not in id and ids(layout.home(), id):
        raise _no_id(id)
    raise not_found(id)


def newest_of(title: str) -> str:
    """Id of the newest experiment of a title.

    Raises:
        NotFound: there is none; the message names near ones.
    """
    found = next(newest(layout.home(), title), None)
    if found is not None:
        return found
    raise _no_title(title) if is_id(title) else not_found(title)


def _titles(home: str, title: str) -> dict[str, list[tuple[int, str]]]:
    """(number, id) of the experiments of each title, oldest first."""
    try:
        found = {name: sorted(_numbered(home, name, bool(title))) for name in _names(home, title)}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RecordError(f"cannot read {error.filename}: {error.strerror}.") from error
    return {name: numbered for name, numbered in found.items() if numbered}


def _names(home: str, title: str) -> list[str]:
    return [title] if title else os.listdir(layout.experiments(home))


def _numbered(home: str, title: str, only: bool) -> Iterator[tuple[int, str]]:
    inside = os.path.join(layout.experiments(home), title)
    try:
        names = os.listdir(inside) if os.path.isdir(inside) else []
    except OSError as error:
        if only:
            raise
        _warn(f"left out {inside}: {error.strerror}")
        return
    for id in names:
        second = id.rpartition("_")[2]
        if second.isdecimal() and len(second) <= 11 and os.path.exists(ExperimentPaths(home, title, id).record):
            yield int(second), id


def _warn(text: str) -> None:
    import logging

    logging.getLogger("nemo_launch").warning("%s", text)


def is_id(text: str) -> bool:
    """Whether there is an experiment of this id."""
    title = text.rpartition("_")[0]
    return bool(title) and os.path.exists(ExperimentPaths(layout.home(), title, text).record)


def _no_id(title: str) -> NotFound:
    """That a title was given for an id."""
    return NotFound(Problem(f"{title!r} is a title, not an id", "", "Experiment.from_title finds its newest."))


def _no_title(id: str) -> NotFound:
    """That an id was given for a title."""
    return NotFound(Problem(f"{id!r} is an id, not a title", "", "Experiment.from_id finds it."))


def not_found(text: str) -> NotFound:
    """That there is no such experiment, with near names."""
    import difflib

    titles = _titles(layout.home(), "")
    known = sorted((pair for numbered in titles.values() for pair in numbered), reverse=True)
    near = difflib.get_close_matches(text, [*titles, *(id for _, id in known)], 3)
    hint = f"Near: {', '.join(near)}." if near else "run.py list shows what there is."
    return NotFound(Problem(f"no experiment {text!r} in {layout.experiments(layout.home())}", "", hint))
