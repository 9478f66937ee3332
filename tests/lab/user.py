"""The user without rights as whom tests run the launcher: root would hide unwritable homes and file modes."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "nemo-user"
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class LabUser:
    """``nemo-user`` where the tests run as root; elsewhere whoever runs them, who has no rights anyway."""

    name: str
    uid: int
    gid: int
    prefix: tuple[str, ...]
    """What goes before an argv to run it as this user. It executes the command, so pids stay the same."""

    @classmethod
    def get(cls) -> LabUser:
        """The user; made when missing, as slurm-up.sh does."""
        if os.geteuid() != 0:
            me = pwd.getpwuid(os.geteuid())
            return cls(me.pw_name, me.pw_uid, me.pw_gid, ())
        try:
            entry = pwd.getpwnam(NAME)
        except KeyError:
            argv = ["useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", NAME]
            subprocess.run(argv, check=True, timeout=30)
            entry = pwd.getpwnam(NAME)
        ids = (f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups")
        # `env`, because setpriv still has root's capabilities while it looks up the program it executes.
        return cls(NAME, entry.pw_uid, entry.pw_gid, ("setpriv", *ids, "env"))

    def can(self, argv: Sequence[str]) -> bool:
        """Whether the command succeeds as this user, in a clean environment."""
        done = subprocess.run([*self.prefix, *argv], env={"PATH": os.defpath}, cwd="/", capture_output=True, timeout=60)
        return done.returncode == 0

    def can_read(self, path: Path) -> bool:
        return self.can(["test", "-r", str(path)])

    def make_dir(self, path: Path) -> Path:
        """A new directory that belongs to this user (its parent must exist)."""
        path.mkdir()
        os.chown(path, self.uid, self.gid)
        return path


def _hard_links(source: Path, target: Path) -> Path:
    """The tree again under a path that others may enter: links cost no space and can be removed safely."""
    for argv in (["cp", "-al"], ["cp", "-a"]):  # the second where the two are on different file systems
        if subprocess.run([*argv, str(source), str(target)], capture_output=True).returncode == 0:
            return target
        shutil.rmtree(target, ignore_errors=True)
    raise RuntimeError(f"cannot copy {source} to {target}")


def _interpreter(base: Path, version: str, target: Path) -> Path:
    """What a Python needs to run: program, shared library, standard library, but none of its packages."""
    library = target / "lib" / version
    (target / "bin").mkdir(parents=True)
    library.mkdir(parents=True)
    program = (base / "bin" / version).read_bytes()
    # One built with a shared library looks for it in a folder by its full path; let it look beside itself.
    path, beside = os.fsencode(base / "lib") + b"\0", b"$ORIGIN/../lib"
    program = program.replace(b"\0" + path, b"\0" + beside.ljust(len(path), b"\0"))
    (target / "bin" / version).write_bytes(program)
    (target / "bin" / version).chmod(0o755)
    for shared in base.glob("lib/libpython*"):
        _hard_links(shared, target / "lib" / shared.name)
    for part in (base / "lib" / version).iterdir():
        if part.name not in ("site-packages", "test"):
            _hard_links(part, library / part.name)
    return target


def python_for(user: LabUser, where: Path) -> Path:
    """A Python that the user can execute and that has the packages of the one that runs the tests.

    Mostly that is the same one. Where it lies under a folder only root may enter (an interpreter below
    ``/root``, a clone in a private folder), what the user cannot reach is linked into ``where`` and a virtual
    environment is put around it; no permission of the machine is changed.
    """
    if user.can([sys.executable, "-c", "import yaml"]):
        return Path(sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, packages = Path(sys.base_prefix), Path(sysconfig.get_path("purelib"))
    if not user.can([str(base / "bin" / version), "-c", ""]):
        base = _interpreter(base, version, where / "base")
    if not user.can_read(packages / "yaml"):
        packages = _hard_links(packages, where / "packages")
    venv = where / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "lib" / version).mkdir(parents=True)
    (venv / "lib" / version / "site-packages").symlink_to(packages)
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\ninclude-system-site-packages = false\n")
    for name in ("python", "python3", version):
        (venv / "bin" / name).symlink_to(base / "bin" / version)
    torchrun = venv / "bin" / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec {venv}/bin/python -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    python = venv / "bin" / "python"
    if not user.can([str(python), "-c", "import yaml"]):
        raise RuntimeError(
            f"{user.name} cannot execute {sys.executable}, nor a copy of it. Make the virtual environment with "
            "an interpreter that every user can execute, for instance: /usr/bin/python3 -m venv .venv"
        )
    return python


def checkout_for(user: LabUser, where: Path, source: Path = CHECKOUT) -> Path:
    """The checkout, or a copy of its files in ``where`` when the user cannot read it where it is."""
    if user.can_read(source / "run.py") and user.can_read(source / "nemo_launch" / "errors.py"):
        return source
    argv = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    target = where / "checkout"
    for name in filter(None, listed.split("\0")):
        if (source / name).is_file():  # a file may be deleted and not yet committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    subprocess.run(["chmod", "-R", "a+rX", str(target)], check=True, timeout=60)
    return target
