"""A node for recipes: a bare Python without this package, fiddle or site-packages."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Modules that both sides import: what graphs are made of, and how objects are described.
SHARED = str(Path(__file__).parent / "on_node")


def shared(name: str) -> Any:
    """A module of ``SHARED``, imported under the name that the node knows it by."""
    if SHARED not in sys.path:
        sys.path.append(SHARED)
    return importlib.import_module(name)


def unpack(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the files of a recipe; the program."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder / "recipe.py"


def run(
    files: Mapping[str, bytes], folder: Path, roots: Sequence[str] = (), python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run a recipe as a job does. No site-packages: neither fiddle nor this package can be imported."""
    program = unpack(files, folder)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(roots), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-S", str(program)]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def server(files: Mapping[str, bytes], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A node that builds graph after graph and describes what came out: ``describe.serve``."""
    unpack(files, folder)
    start = f"import sys; sys.path[:0] = {[str(folder / 'sources'), SHARED]!r}; import runpy; "
    start += f"runpy.run_path({SHARED + '/describe.py'!r}, run_name='__main__')"
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate()


def ask(process: subprocess.Popen[str], graph: bytes) -> str:
    """Its description of what a graph builds."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(graph.decode().replace("\n", " ") + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def pythons() -> list[str]:
    """Other versions that are installed here: a node's may be older or newer than the launcher's."""
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [str(path) for minor in range(8, 15) for path in sorted(home.glob(f"3.{minor}.*/bin/python"))[:1]]
    return found or [sys.executable]
