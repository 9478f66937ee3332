"""Images for the stand-in of pyxis: a file describes a root, made of a few files and of binds of this machine.

A line of such a file is ``root DIR`` (copied), ``bind SRC [DST]`` (read-only), ``env NAME=VALUE`` or ``workdir DIR``.
An empty line, or a zero byte, is its end, so that a file may be as long as a real image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: What every image has, and no host: who sees it is in a container.
MARK = "/etc/stand-in-image"


@dataclass(frozen=True)
class Images:
    """Makes images in a folder that the user can read."""

    folder: Path
    registry: Path
    """Where the plug-in looks for images that are no path."""
    python: Path
    """An interpreter that the user can execute."""

    @property
    def full(self) -> Path:
        """bash, coreutils and the tests' Python with torch, as ``python3`` on the image's own PATH."""
        places = {str(path) for path in (self.python.parent.parent, *self._around()) if path.exists()}
        binds = ["/usr", *sorted(p for p in places if not p.startswith("/usr/"))]
        env = {"PATH": f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin", "A": "1"}
        env["PYTHONPATH"] = "/opt/of-the-image"
        return self._image("full", binds, env, links=True)

    @property
    def without_bash(self) -> Path:
        """busybox alone."""
        return self._image("without-bash", [*_libraries()], {"PATH": "/bin", "A": "1"}, programs=("busybox",))

    @property
    def without_python(self) -> Path:
        """busybox and bash."""
        return self._image("without-python", [*_libraries()], {"PATH": "/bin"}, programs=("busybox", "bash"))

    @property
    def with_old_python(self) -> Path:
        """What calls itself python3 there says that it is too old for everything that it is asked."""
        image = self._image("old-python", [*_libraries()], {"PATH": "/bin"}, programs=("busybox",))
        fake = self.folder / "old-python" / "bin" / "python3"
        fake.write_text('#!/bin/sh\nif [ "$1" = -c ]; then echo 3.6; exit 3; fi\necho started anyway\n')
        fake.chmod(0o755)
        return image

    def in_registry(self, reference: str, image: Path) -> None:
        """Publish an image, such as ``nvcr.io#nvidia/nemo:25.02``."""
        shutil.copy(image, self.registry / f"{reference.translate(str.maketrans('/#:', '+++'))}.sqsh")

    def _around(self) -> list[Path]:
        """Where the interpreter itself and its packages lie, if not below its own folder."""
        code = "import sys, sysconfig; print(sys.base_prefix); print(sysconfig.get_path('purelib'))"
        said = subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True).stdout
        return [Path(os.path.realpath(line)) for line in said.splitlines()]

    def _image(
        self, name: str, binds: list[str], env: Mapping[str, str], programs: tuple[str, ...] = (), links: bool = False
    ) -> Path:
        image, root = self.folder / f"{name}.sqsh", self.folder / name
        if image.exists():
            return image
        for directory in ("etc", "bin", "dev", "proc", "sys", "tmp"):
            if directory != "bin" or not links:
                (root / directory).mkdir(parents=True)
        (root / MARK.lstrip("/")).write_text(f"{name}\n")
        for library in Path("/").glob("lib*"):
            if library.is_symlink():
                (root / library.name).symlink_to(os.readlink(library))
        if links:
            (root / "bin").symlink_to("usr/bin")
        for program in programs:
            shutil.copy(shutil.which(program) or program, root / "bin" / program)
        if "busybox" in programs:
            for applet in subprocess.run(
                ["busybox", "--list"], check=True, capture_output=True, text=True
            ).stdout.split():
                if not (root / "bin" / applet).exists() and not applet.startswith(("bash", "python")):
                    (root / "bin" / applet).symlink_to("busybox")
        lines = ["stand-in image", f"root {root}", *(f"bind {path}" for path in binds)]
        lines += [f"env {variable}={value}" for variable, value in env.items()]
        image.write_text("\n".join(lines) + "\n")
        return image


def _libraries() -> list[str]:
    return [path for path in ("/usr/lib", "/usr/lib64", "/usr/lib32") if os.path.isdir(path)]
