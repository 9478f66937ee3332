"""A folder to run in, and a launcher in a process of its own that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import make_local
from tests.conformance.site import Site

CHECKOUT = Path(__file__).resolve().parents[3]

#: Launches tasks a and b (b after a) into an experiment; their programs are in the folder.
LAUNCHER = """
import sys
from pathlib import Path
from tests.conformance.conftest import make_local
from tests.conformance.site import Site

site = Site(Path(sys.argv[1]), make_local, {"grace": "0:02"})
text = (site.folder / "a.sh").read_text()
run = site.prepare(site.task("a", text), site.task("b", (site.folder / "b.sh").read_text(), after=["a"]))
print("planned", flush=True)
run.submit()
print("launched", flush=True)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in [name for name in os.environ if name.startswith("NEMO_LAUNCH_")]:
        monkeypatch.delenv(name)
    made = Site(tmp_path, make_local, {"grace": "0:02"})
    yield made
    made.close()


@pytest.fixture
def start_launcher(site: Site) -> Callable[..., subprocess.Popen[str]]:
    """Starts LAUNCHER with the two programs' texts."""

    def start(a: str, b: str, **options: Any) -> subprocess.Popen[str]:
        for name, text in (("a", a), ("b", b)):
            (site.folder / f"{name}.sh").write_text(f"#!/bin/sh\n{text}\n")
        launcher: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(site.folder)],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        return launcher

    return start
