"""Profiling with NVIDIA Nsight Systems: the fields, their rules and the command line of ``nsys profile``.

The words are nsys' own (https://docs.nvidia.com/nsight-systems/UserGuide, "CLI Profile Command Switch Options").
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nemo_launch.errors import Problem


@dataclass(frozen=True, kw_only=True)
class NsysOptions:
    """What executors share that can run a task under ``nsys profile``."""

    nsys_enabled: bool = False
    """Run the training command under ``nsys profile``, with one ``.nsys-rep`` for each node. For diagnosis: it slows
    the program, and its files are large."""
    nsys_trace: str = "cuda,nvtx"
    """What is traced (``--trace``), as nsys writes it: ``cuda,nvtx,osrt``; ``none``."""
    nsys_capture_range: Literal["none", "cudaProfilerApi", "nvtx"] | None = None
    """Collect only between the program's own marks (``--capture-range``); default: from start to end."""
    nsys_capture_range_end: str | None = None
    """What the end of a range does (``--capture-range-end``): ``stop``, ``stop-shutdown``, ``repeat[:N]`` or
    ``repeat-shutdown:N``; default: stop, with which the program goes on."""
    nsys_ranks: tuple[int, ...] = ()
    """Profile these ranks alone, each with a report of its own; default: all of a node's ranks in the report of their
    node under torchrun, the first of each node under srun."""
    nsys_output: str | None = None
    """Name of the reports (``--output``, with nsys' own ``%h``, ``%p`` and ``%q{NAME}``), or with / at its end a folder
    for them; relative to the work dir. Default: ``profile-JOB-ATTEMPT-NODE`` in the job's folder."""
    nsys_args: tuple[str, ...] = ()
    """Further options for ``nsys profile``, each as ``--name=value``."""


#: Option -> what says it.
_SAID = {
    "--trace": "nsys_trace",
    "-t": "nsys_trace",
    "--capture-range": "nsys_capture_range",
    "-c": "nsys_capture_range",
    "--capture-range-end": "nsys_capture_range_end",
    "--output": "nsys_output",
    "-o": "nsys_output",
}
_RANGE_END = r"none|stop|stop-shutdown|repeat(:[1-9][0-9]*)?|repeat-shutdown:[1-9][0-9]*"
FIELDS = tuple(NsysOptions.__dataclass_fields__)


def problems(config: object) -> Iterator[Problem]:
    """Rules of these fields; a config that does not have them keeps all."""
    if not isinstance(config, NsysOptions):
        return
    if not re.fullmatch(r"[\w-]+(,[\w-]+)*", config.nsys_trace, re.ASCII) and config.nsys_trace.strip():
        yield Problem(f"{config.nsys_trace!r} is no list for nsys", "nsys_trace", "Write it as in cuda,nvtx,osrt.")
    end = config.nsys_capture_range_end
    if end is not None and end.strip() and not re.fullmatch(_RANGE_END, end, re.ASCII):
        fix = "There are none, stop, stop-shutdown, repeat, repeat:N and repeat-shutdown:N."
        yield Problem(f"{end!r} is no end of a capture range", "nsys_capture_range_end", fix)
    yield from _args(config)
    if config.nsys_enabled:
        yield from _reports(config)


def _args(config: NsysOptions) -> Iterator[Problem]:
    for option in config.nsys_args:
        if not re.match(r"--\w[\w-]+(=|$)|-\w$", option, re.ASCII):
            fix = "Write each option as one entry, as in --cuda-memory-usage=true."
            yield Problem(f"{option!r} is not an option of nsys profile", "nsys_args", fix)
        elif said := _SAID.get(option.split("=")[0]):
            yield Problem(f"{option!r} says again what a field says", "nsys_args", f"Use {said} instead.")
        elif not option.startswith("--"):
            yield Problem(f"{option!r} is a short option", "nsys_args", "Write its long name, as in --sample=cpu.")


def _reports(config: NsysOptions) -> Iterator[Problem]:
    nodes = getattr(config, "nodes", 1)
    world = nodes * getattr(config, "ntasks_per_node", 1)
    if getattr(config, "launcher", None) == "none":
        nodes = world = 1
    if beyond := [rank for rank in config.nsys_ranks if not 0 <= rank < world]:
        what = f"there is no rank {beyond[0]}: the job has {world}"
        yield Problem(what, "nsys_ranks", f"Ranks are counted from 0 to {world - 1}.")
    output = config.nsys_output or "/"
    several = len(set(config.nsys_ranks)) > 1 or (nodes > 1 and not config.nsys_ranks)
    if several and not output.endswith("/") and not re.search(r"%[hpn]|%q\{", output):
        what = f"{output!r} is one name for the reports of several processes, which would overwrite each other"
        yield Problem(what, "nsys_output", f"Add %h or %p to it, or write {output}/ for a folder.")


def target(config: NsysOptions, work_dir: str) -> str:
    """nsys' output, absolute; empty: the job's folder, or none is asked for."""
    return os.path.join(work_dir, config.nsys_output) if config.nsys_enabled and config.nsys_output else ""


def folder(config: NsysOptions, work_dir: str) -> str:
    """The folder of the reports, if it has been chosen and has a fixed name."""
    found = os.path.dirname(target(config, work_dir))
    return "" if "%" in found else found


def words(config: NsysOptions) -> tuple[str, ...]:
    """Options of ``nsys profile`` without its output; empty: it is not asked for."""
    if not config.nsys_enabled:
        return ()
    given = {option.split("=")[0] for option in config.nsys_args}
    own = {
        "--trace": config.nsys_trace,
        # The processes' ends are the launcher's affair: nsys must not end them with the collection.
        "--kill": "none",
        "--sample": "none",
        "--force-overwrite": "true",
    }
    if config.nsys_capture_range:
        own["--capture-range"] = config.nsys_capture_range
        own["--capture-range-end"] = config.nsys_capture_range_end or "stop"
    return (*(f"{name}={value}" for name, value in own.items() if name not in given), *config.nsys_args)


def notes(config: object, folder: str) -> list[str]:
    """What the user should know about a profiled run; ``folder`` is where reports go unless said otherwise."""
    if not isinstance(config, NsysOptions) or not config.nsys_enabled:
        return []
    which = f"rank {', '.join(map(str, config.nsys_ranks))}" if config.nsys_ranks else "each node"
    return [
        f"nsys profiling is for diagnosis: it slows the training, and its reports are large, so keep the run short; "
        f"one .nsys-rep for {which} in {config.nsys_output or folder}"
    ]
