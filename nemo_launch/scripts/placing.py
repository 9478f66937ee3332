"""From where a script runs, and which code travels with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nemo_launch import packaging
from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.errors import InputError
from nemo_launch.scripts.interpreting import How
from nemo_launch.task import Code


class Place(NamedTuple):
    """Where a script runs from: a path below the first of its roots."""

    relative: str
    roots: tuple[str, ...]
    """Folders whose code it may import, as they are here; used where nothing is copied."""
    codes: tuple[Code, ...]
    """The copies of those folders; the first holds the script."""
    inner: tuple[tuple[int, str], ...] = ()
    """Further folders for imports: (number of the copy, path in it)."""

    def script(self, snapshots: str) -> str:
        """The script's path on the nodes."""
        folder = os.path.join(snapshots, self.codes[0].digest) if self.codes else self.roots[0]
        return os.path.join(folder, self.relative)

    def pythonpath(self, snapshots: str) -> tuple[str, ...]:
        """For imports from all roots."""
        copies = [os.path.join(snapshots, code.digest) for code in self.codes]
        return (*copies, *(os.path.join(copies[number], path) for number, path in self.inner), *self.roots)


def place(path: str, config: ExecutorConfig, work_dir: str, leave_out: Sequence[str]) -> Place:
    """Where a script file runs from: inside the work dir with its neighbours, else with the folder that it belongs to.

    Raises:
        InputError: the code cannot be copied.
    """
    inside = _below(path, work_dir)
    if inside:
        codes = (packaging.collect(work_dir, leave_out, (*config.include, inside)),) if config.snapshot else ()
        return Place(inside, () if codes else (work_dir,), codes)
    path = os.path.realpath(path)  # Python looks for neighbours where the file really is
    own = _own_root(path)
    relative = os.path.relpath(path, own)
    if not config.snapshot:
        return Place(relative, (own, work_dir), ())
    try:
        code = packaging.collect(own, leave_out, (relative,))
    except InputError as error:  # too much in it, or it may not be listed
        note = f"{path} travels without its neighbours, because {error.problems[0].what}"
        code = replace(packaging.alone(path), notes=(note,))
        relative = os.path.basename(path)
    return _with_work_dir(relative, code, config, work_dir, leave_out)


def place_text(text: str, how: How, config: ExecutorConfig, work_dir: str, leave_out: Sequence[str]) -> Place:
    """Where a script given as text runs from: from a copy in any case, because it lies nowhere else."""
    if how.language == "shell":
        return Place("script.sh", (), (packaging.inline("script.sh", text),))
    code = packaging.inline("script.py", text)
    if not config.snapshot:
        return Place("script.py", (work_dir,), (code,))
    return _with_work_dir("script.py", code, config, work_dir, leave_out)


def with_editable(place: Place, config: ExecutorConfig) -> Place:
    """Packages installed with ``pip install -e``: imported from the copy if they are in it, else named in a note.

    Without this a project with its packages under ``src`` would be imported from where it is being edited.
    """
    elsewhere = config.python not in (None, sys.executable) or getattr(config, "container_image", None)
    if not place.codes or not config.snapshot or elsewhere:
        return place
    from nemo_launch.packaging import editable

    inner, outside = [], []
    tops = [os.path.realpath(code.root) if os.path.isabs(code.root) else "" for code in place.codes]
    for folder in editable.folders():
        real = os.path.realpath(folder)
        if real in tops:
            continue
        for number, (top, code) in enumerate(zip(tops, place.codes, strict=True)):
            relative = real[len(top) + 1 :]
            if top and real.startswith(top + "/") and any(f.startswith(relative + "/") for f, _ in code.files):
                inner.append((number, relative))
                break
        else:
            outside.append(folder)
    if outside:
        where = ", ".join(outside[:3]) + (f" and {len(outside) - 3} more" if len(outside) > 3 else "")
        note = f"imports from {where} (editable installs) are not copied: edits there reach jobs that wait"
        first = replace(place.codes[0], notes=(*place.codes[0].notes, note))
        place = place._replace(codes=(first, *place.codes[1:]))
    return place._replace(inner=(*place.inner, *inner))


def _with_work_dir(relative: str, code: Code, config: ExecutorConfig, work_dir: str, leave_out: Sequence[str]) -> Place:
    try:
        return Place(relative, (), (code, packaging.collect(work_dir, leave_out, config.include)))
    except packaging.TooMuch as error:
        if config.include:
            raise
        note = f"no copy of the work dir is taken, and nothing can be imported from it: {error.problems[0].what}"
        return Place(relative, (), (replace(code, notes=(*code.notes, note)),))


def _below(path: str, work_dir: str) -> str | None:
    """The path relative to the work dir if it really lies there, however either was spelled."""
    top = os.path.realpath(work_dir)
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    prefix = top.rstrip("/") + "/"
    if path.startswith(prefix) and os.path.realpath(path).startswith(prefix):
        return path[len(prefix) :]
    return None


def _own_root(path: str) -> str:
    """The nearest ``recipes`` folder above a script, else the folder that it lies in."""
    folder = os.path.dirname(path)
    above = folder
    while os.path.dirname(above) != above:
        if os.path.basename(above) == "recipes":
            return above
        above = os.path.dirname(above)
    return folder
