"""Questions to Slurm: squeue and sacct, their text as rows, and whether there was an answer at all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from nemo_launch.errors import Unreachable
from nemo_launch.executors.base import Handle
from nemo_launch.executors.slurm import commands
from nemo_launch.transport import CommandMissing, Completed, Transport

#: Unit separator: no field of ours can hold it, and squeue and sacct of every version print it as it is.
SEPARATOR = "\x1f"
_SQUEUE = ("%i", "%T", "%r", "%V", "%S", "%e", "%N", "%o")
_SACCT = ("JobID", "State", "Reason", "Submit", "Start", "End", "NodeList", "ExitCode", "SubmitLine")
#: Beyond this many ids the user's whole queue is asked for instead: the controller can pick that out itself.
_MANY = 100
_DAY = 86400.0
_NO_SACCT = "there is no sacct here"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_INDICES = re.compile(r"([0-9]+)_\[([^%\]]+)(?:%[0-9]+)?\]")
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([1-9][0-9]*))?)?")
_PART = re.compile(r"([0-9]+)[_+](?:[0-9]+|\[.*\])")
_NOBODY = (
    r"unable to contact|socket timed out|temporarily una(?:ble|vailable)|connection (?:refused|timed out|reset)"
    r"|connect failure|zero bytes were transmitted|transport endpoint|communication connection failure|standby"
    r"|message receive failure|no response|network is unreachable|configuration source|failed to fetch config"
)


class Row(NamedTuple):
    """One job as squeue or sacct shows it. Times are unix seconds."""

    job_id: str
    state: str
    """Slurm's word; ``CANCELLED by 1001`` from sacct."""
    reason: str = ""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    nodes: str = ""
    command: str = ""
    """The batch script's path (squeue; ``(null)`` for a job without) or the line that submitted it (sacct)."""
    exit_code: int | None = None
    signal: int | None = None


class Answer(NamedTuple):
    """What one command said. Without an ``error`` the rows are all there is."""

    rows: Mapping[str, Row] = _NOTHING
    """By the job's id; each index of an array and each component of a heterogeneous job has a row of its own."""
    error: str = ""
    """Why there is no answer; empty: there is one."""
    disabled: bool = False
    """The site keeps no accounting: nobody will ever answer."""
    families: Mapping[str, Sequence[str]] = _NOTHING
    """Ids of the rows of each array and each heterogeneous job, by the id that they share."""

    def row(self, handle: Handle) -> Row | None:
        """The row of one job. An index that was never started is a row of the whole array once that has ended."""
        found = self.rows.get(str(handle))
        return found if found or handle.array_index is None else self.rows.get(handle.job_id)

    def parts(self, handle: Handle) -> dict[str, Row]:
        """Rows of what a job consists of, by their ids; empty: it is one job."""
        if handle.array_index is not None or handle.het_part is not None:
            return {}
        return {job_id: self.rows[job_id] for job_id in self.families.get(handle.job_id, ())}


def unreachable(text: str) -> bool:
    """Whether this is how Slurm's commands say that nobody answered."""
    return re.search(_NOBODY, text, re.IGNORECASE) is not None


def parse_squeue(text: str) -> list[Row]:
    """Rows of ``squeue -h -o``; other lines (``CLUSTER: name``, banners) are passed over."""
    rows = []
    for line in text.split("\n"):  # splitlines would also end lines inside of strange paths
        fields = line.split(SEPARATOR, len(_SQUEUE) - 1)
        if len(fields) == len(_SQUEUE):
            job_id, state, reason, submitted, started, ended, nodes, command = (f.strip() for f in fields)
            times = (_time(submitted), _time(started), _time(ended))
            rows += [Row(one, state, _none(reason), *times, _none(nodes), command) for one in expand(job_id)]
    return rows


def expand(job_id: str) -> list[str]:
    """The ids that one row stands for: ``7_[0-2,5%2]`` is ``7_0``, ``7_1``, ``7_2`` and ``7_5``.

    Waiting indices of an array share a row; ``%2`` says how many may run at once, ``0-8:2`` is each second one. What
    cannot be read stays as it is.
    """
    match = _INDICES.fullmatch(job_id)
    if not match:
        return [job_id]
    ids = []
    for item in match[2].split(","):
        span = _SPAN.fullmatch(item)
        if not span:
            return [job_id]
        ids += [f"{match[1]}_{i}" for i in range(int(span[1]), int(span[2] or span[1]) + 1, int(span[3] or 1))]
    return ids


def parse_sacct(text: str) -> list[Row]:
    """Rows of ``sacct -n -P -X``."""
    rows = []
    for line in text.split("\n"):
        fields = line.split(SEPARATOR, len(_SACCT) - 1)
        if len(fields) not in (len(_SACCT), len(_SACCT) - 1):
            continue
        job_id, state, reason, submitted, started, ended, nodes, code = (f.strip() for f in fields[:8])
        exit_code, _, signal = code.partition(":")
        rows += [
            Row(
                one,
                state,
                _none(reason),
                _time(submitted),
                _time(started),
                _time(ended),
                _none(nodes),
                fields[8].strip() if len(fields) > 8 else "",
                int(exit_code) if exit_code.isdecimal() else None,
                int(signal) if signal.isdecimal() and int(signal) else None,
            )
            for one in expand(job_id)
        ]
    return rows


class Slurm:
    """The questions, through one transport. ``calls`` counts them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.calls = 0

    def squeue(
        self,
        ids: Sequence[str] | None,
        cluster: str | None = None,
        mine: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer:
        """Jobs that the controller knows: those ids, or (None) all of this user's. ``mine``: see ``sacct``.

        ``meanwhile`` is called once, while the controller thinks.
        """
        which = ["--me"] if _too_many(ids, mine) else ["-j", ",".join(ids or ())]
        argv = ["squeue", "-h", "-t", "all", *_on(cluster), "-o", SEPARATOR.join(_SQUEUE), *which]
        done = self._ask(argv, meanwhile)
        if isinstance(done, str):
            return Answer(error=done)
        # One id that is unknown: status 1. Several of which one is unknown: status 0. Both are answers.
        if done.returncode != 0 and "invalid job id" not in done.stderr.lower():
            return Answer(error=_words(done, "squeue"))
        return _answer(parse_squeue(done.stdout))

    def sacct(self, ids: Sequence[str] | None, since: float, cluster: str | None = None, mine: bool = True) -> Answer:
        """Jobs that accounting knows: those ids, or (None) all of this user's; of ``since`` less a day or later.

        ``mine``: the jobs are this user's, so that instead of very many ids all jobs of the user may be asked for.
        """
        which = [] if _too_many(ids, mine) else ["-j", ",".join(ids or ())]
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - _DAY))
        argv = ["sacct", "-n", "-P", "-X", f"--delimiter={SEPARATOR}", "-S", start, *_on(cluster), *which]
        done = self._ask([*argv, "-o", ",".join(_SACCT)])
        if not isinstance(done, str) and "invalid field" in done.stderr.lower():
            done = self._ask([*argv, "-o", ",".join(_SACCT[:-1])])  # SubmitLine is new in 20.11
        if isinstance(done, str):
            return Answer(error=done, disabled=done == _NO_SACCT)
        if done.returncode == 0:
            return _answer(parse_sacct(done.stdout))
        disabled = "accounting storage is disabled" in done.stderr.lower()
        return Answer(error=_words(done, "sacct"), disabled=disabled)

    def _ask(self, argv: Sequence[str], meanwhile: Callable[[], None] | None = None) -> Completed | str:
        self.calls += 1
        try:
            return self._transport.run(argv, env=commands.query(), timeout=60.0, meanwhile=meanwhile)
        except CommandMissing:
            if argv[0] != "sacct":
                raise
            return _NO_SACCT  # a site without accounting need not have its command
        except Unreachable as error:
            return str(error)


def _on(cluster: str | None) -> list[str]:
    return ["-M", cluster] if cluster else []


def _too_many(ids: Sequence[str] | None, mine: bool) -> bool:
    return ids is None or (mine and len(ids) > _MANY)


def _answer(rows: Iterable[Row]) -> Answer:
    """By id; of several runs of one id (requeued) the last counts, which sacct prints last."""
    by_id = {row.job_id: row for row in rows}
    families: dict[str, list[str]] = {}
    for job_id in by_id:
        if (match := _PART.fullmatch(job_id)) is not None:
            families.setdefault(match[1], []).append(job_id)
    return Answer(by_id, families=families)


def _words(done: Completed, command: str) -> str:
    return done.stderr.strip() or f"{command} ended with status {done.returncode} and no message"


def _time(text: str) -> float | None:
    """Unix seconds; None for ``N/A``, ``Unknown``, ``None``."""
    return float(text) if text.isdecimal() and text != "0" else None


def _none(text: str) -> str:
    return "" if text in ("None", "(null)", "None assigned", "N/A") else text
