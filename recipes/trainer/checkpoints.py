"""Checkpoints on disk: written whole or not at all. For the nodes: needs torch.

A checkpoint is a folder `step-000020`: what torch.distributed.checkpoint writes (each rank its part, so that any
number of ranks can read it), the random state of each rank, and progress.json. All ranks write into a temporary folder;
it gets its name when everything in it is on disk, and after that `latest` moves. Who is killed at any instant leaves
the older checkpoints and `latest` as they were.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from trainer import randomness
from trainer.config import LATEST, PROGRESS, Checkpoint
from trainer.group import Group
from trainer.ranks import Mistake

#: Names the task's folder, in which the launcher looks for `checkpoints/latest`.
RUNS_OWN = "NEMO_LAUNCH_TASK_DIR"


class SaveFailed(RuntimeError):
    """A rank could not write its part; the older checkpoints are untouched."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    step: int
    samples: int
    """Taken from the data so far, over all epochs."""
    global_batch_size: int
    world_size: int
    seed: int
    data: str
    """The fingerprint of the data."""


class Checkpoints:
    """The checkpoints of one folder."""

    def __init__(self, config: Checkpoint, group: Group) -> None:
        self._folder, self._keep, self._group = config.folder, config.keep_last_k, group
        self._thread = ThreadPoolExecutor(1)  # removing old ones takes a while on a big file system
        self._removal: Future[None] | None = None
        group.only(group.rank == 0, self._make_folder)

    def save(self, progress: Progress, tensors: dict[str, Any]) -> None:
        """Save on all ranks; returns as soon as every rank's part is on disk.

        Raises SaveFailed on all ranks if one of them cannot write.
        """
        temporary = self._folder / f".tmp-step-{progress.step:06d}"
        self._together(lambda: self._prepare(temporary), only_first=True)
        self._together(lambda: self._write_random_state(temporary))
        self._together(lambda: self._write(temporary, tensors))
        if self._group.rank == 0:  # the others go on
            final = self._publish(temporary, progress)
            print(f"checkpoint {final}", flush=True)
            self._removal = self._thread.submit(self._remove_old, final)

    def close(self) -> None:
        """Wait until what is no longer kept is gone."""
        self._thread.shutdown()
        if self._removal:
            self._removal.result()

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Mistake(f"cannot make checkpoint.dir {error.filename}: {error.strerror}. Choose another.") from error

    # `act` must not leave the others waiting in the middle of it: torch.distributed.checkpoint sees to that itself.
    def _together(self, act: Callable[[], None], only_first: bool = False) -> None:
        failed: BaseException | None = None
        if self._group.rank == 0 or not only_first:
            try:
                act()
            except (Exception, CheckpointException) as error:  # whatever it is, the other ranks must learn of it
                failed = error
        if self._group.any(failed is not None)[0]:
            if self._group.rank == 0:
                for leftover in self._folder.glob(".tmp-step-*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            what = f"cannot save a checkpoint in {self._folder}; the older ones are untouched"
            raise SaveFailed(f"{what}: {failed or 'another rank failed'}") from failed

    def _prepare(self, temporary: Path) -> None:
        if self._removal:
            self._removal.result()
        for leftover in self._folder.glob(".tmp-*"):  # of a process that was killed while it saved
            leftover.unlink() if leftover.is_symlink() else shutil.rmtree(leftover)
        temporary.mkdir()

    def _write_random_state(self, folder: Path) -> None:
        with (folder / _rng_name(self._group.rank)).open("wb") as out:
            torch.save(randomness.state(), out)
            out.flush()
            os.fsync(out.fileno())

    def _write(self, folder: Path, tensors: dict[str, Any]) -> None:
        writer = dcp.FileSystemWriter(folder, sync_files=True)
        warnings.filterwarnings("ignore", ".*torch.distributed is disabled.*")  # one process by itself is no mistake
        dcp.save(tensors, storage_writer=writer, process_group=self._group.control, no_dist=not self._group.exists)

    def _publish(self, temporary: Path, progress: Progress) -> Path:
        with (temporary / PROGRESS).open("w", encoding="utf-8") as out:
            json.dump({"schema_version": 1, **asdict(progress)}, out)
            out.flush()
            os.fsync(out.fileno())
        _flush(temporary)
        # A run that went on from an older checkpoint comes by here again; what is there stays until it is old.
        name = f"step-{progress.step:06d}"
        taken = {path.name for path in self._folder.glob(f"{name}*")}
        final = self._folder / next(new for n in range(1, len(taken) + 3) if (new := _numbered(name, n)) not in taken)
        temporary.rename(final)
        _point(self._folder, Path(final.name))
        if RUNS_OWN in os.environ:
            own = Path(os.environ[RUNS_OWN]) / "checkpoints"
            if own.resolve() != self._folder.resolve():
                self._tell_the_launcher(own, final)
        return final

    def _tell_the_launcher(self, own: Path, final: Path) -> None:
        """An attempt that follows looks into the task's folder: what others left in this one is not of this run."""
        try:
            own.mkdir(exist_ok=True)
            _point(own, final.absolute())
        except OSError as error:  # the checkpoint is there all the same
            print(f"cannot write {error.filename}: {error.strerror}; a restart will not find {final}", flush=True)

    def _remove_old(self, newest: Path) -> None:
        whole = (path for path in self._folder.glob("step-*") if (path / PROGRESS).is_file())
        by_age = sorted(whole, key=lambda path: ((path / PROGRESS).stat().st_mtime_ns, path.name))
        old = [path for path in by_age if path != newest][: max(0, len(by_age) - self._keep)]
        for path in old:
            aside = path.with_name(f".tmp-old-{path.name}")
            path.rename(aside)  # so that what is half removed is no checkpoint
            shutil.rmtree(aside)


class Restored:
    """A checkpoint to go on from."""

    def __init__(self, path: str, group: Group) -> None:
        self._group = group
        # `latest` may move while ranks read; so all take what it is now on the first one.
        self.folder = Path(group.from_first(os.path.realpath(path)))
        try:
            saved = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
            self.progress = Progress(**{name: saved[name] for name in Progress.__dataclass_fields__})
            self._metadata = dcp.FileSystemReader(self.folder).read_metadata()
        except Exception as error:
            raise Mistake(f"restore_from.path {self.folder} cannot be read: {error}.") from error

    def check(self, model: Any) -> None:
        """Raise Mistake if it is of a model of another shape."""
        sizes = {
            name: tuple(value.size)
            for name, value in self._metadata.state_dict_metadata.items()
            if hasattr(value, "size")
        }
        prefix = "model."
        saved = {name.removeprefix(prefix): size for name, size in sizes.items() if name.startswith(prefix)}
        ours = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        differences = [
            f"{name} is {saved.get(name, 'absent')} there and {ours.get(name, 'absent')} here"
            for name in sorted(saved.keys() | ours.keys())
            if saved.get(name) != ours.get(name)
        ]
        if differences:
            some = ", ".join(differences[:3]) + (f" and {len(differences) - 3} more" if len(differences) > 3 else "")
            remedy = "Give the model the values that the checkpoint was made with, or start without restore_from.path"
            raise Mistake(f"restore_from.path {self.folder} is of a model of another shape: {some}. {remedy}.")

    def load(self, tensors: dict[str, Any]) -> None:
        """Read into the tensors, each rank its part."""
        group = self._group
        reader = dcp.FileSystemReader(self.folder)
        dcp.load(tensors, storage_reader=reader, process_group=group.control, no_dist=not group.exists)

    def random_state(self) -> dict[str, Any] | None:
        """This rank's; None if the checkpoint was written by another number of ranks."""
        if self.progress.world_size != self._group.world_size:
            return None
        path = self.folder / _rng_name(self._group.rank)
        state: dict[str, Any] = torch.load(path, weights_only=True)
        return state


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _rng_name(rank: int) -> str:
    return f"random-{rank:05d}.pt"


def _point(folder: Path, to: Path) -> None:
    """Let `latest` in a folder name this checkpoint, at once and for good."""
    link = folder / ".tmp-latest"
    link.unlink(missing_ok=True)
    link.symlink_to(to)
    _flush(folder)
    link.replace(folder / LATEST)
    _flush(folder)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot flush a folder, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
