"""Launch scripts for the tests: each lowers a recipe that it defines itself, and leaves the files for a node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.buildables import node

CHECKOUT = str(Path(__file__).parents[2])
#: At the end of each script: ``leave(recipe)`` writes what the node needs.
LEAVE = """
def leave(recipe, roots=()):
    import os, pathlib
    from nemo_launch.buildables.encode import encode
    from nemo_launch.errors import InputError
    try:
        encoded = encode(recipe, list(roots))
    except InputError as error:
        raise SystemExit("\\n".join(f"{p.where}: {p.what}. {p.fix}" for p in error.problems))
    for name, data in encoded.files.items():
        path = pathlib.Path(os.environ["LEAVE_IN"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print("notes:", *encoded.notes)
"""
#: Runs its argument's cells, which a line of dashes divides, as a notebook's kernel does.
KERNEL = """
import linecache, sys
def cell(number, source):
    name = f"/tmp/ipykernel_77/{number}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), vars(sys.modules["__main__"]))
text = open(sys.argv[1]).read()
del sys.modules["__main__"].__file__
for number, source in enumerate(text.split("-----\\n")):
    cell(number, source)
"""


class Launched(NamedTuple):
    """What a launch script did, and where the files for the node are."""

    code: int
    out: str
    err: str
    folder: Path

    def run(self, python: str = sys.executable, roots: str = "") -> subprocess.CompletedProcess[str]:
        """On a node."""
        assert self.code == 0, self.err
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": roots, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, "-S", str(self.folder / "recipe.py")]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def launch(folder: Path, text: str, *, how: str = "script", path: str = "") -> Launched:
    """Run a launch script. ``how``: ``script``, ``notebook`` (cells divided by dashes) or ``-c``."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.py"
    file.write_text(text)
    (folder / "leave.py").write_text(LEAVE)
    (folder / "kernel.py").write_text(KERNEL)
    words = {"script": [str(file)], "notebook": [str(folder / "kernel.py"), str(file)], "-c": ["-c", text]}[how]
    env = {
        **os.environ,
        "LEAVE_IN": str(folder / "files"),
        "PYTHONPATH": os.pathsep.join([str(folder), CHECKOUT, node.SHARED, *filter(None, [path])]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    return Launched(done.returncode, done.stdout, done.stderr, folder / "files")
