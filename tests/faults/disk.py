"""Disks that fill up, folders that cannot be written to, and commands that are not there."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import LabUser


@contextmanager
def small_disk(folder: Path, kib: int, user: LabUser) -> Iterator[Path]:
    """Mounts a file system of so many KiB on an empty folder, owned by the user; every node sees it. Needs root.

    It counts in pages: a file takes a multiple of 4 KiB, and so does a folder's first entry.
    """
    options = f"size={kib}k,uid={user.uid},gid={user.gid},mode=0755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "nemo-launch-test", str(folder)], check=True, timeout=30)
    try:
        yield folder
    finally:
        # Lazily, since a job may still have a file open there.
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)


def fill(disk: Path, leave_kib: int = 0) -> Path:
    """Fills a small disk but for so many KiB, and returns the file that does: remove it to make room."""
    filler = disk / "filler"
    block = b"\0" * 4096
    with filler.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(block)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        out.truncate(max(0, out.tell() - leave_kib * 1024))
    return filler


@contextmanager
def unwritable(folder: Path) -> Iterator[Path]:
    """A folder that its owner can read and enter but not write to, until the end of the block."""
    before = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(0o555)
    try:
        yield folder
    finally:
        folder.chmod(before)


def path_without(folder: Path, path: str, *missing: str) -> str:
    """That PATH without some commands, such as ``sbatch``: a new folder of links to all the others."""
    folder.mkdir()
    for directory in path.split(":"):
        if not os.path.isdir(directory):
            continue
        for entry in os.scandir(directory):
            link = folder / entry.name
            if entry.name not in missing and not link.is_symlink():
                link.symlink_to(entry.path)
    return str(folder)
