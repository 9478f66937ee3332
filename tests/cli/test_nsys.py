"""``run.py --nsys`` on this machine, with a stand-in for nsys."""

from __future__ import annotations

from pathlib import Path

from tests.lab import Launcher
from tests.lab.nsys import STAND_IN


def test_a_local_run_is_profiled(launcher: Launcher) -> None:
    launcher.write("ok.sh", 'echo "hello from $0"\n')
    bin = launcher.write("bin/nsys", STAND_IN.read_text(), 0o755).parent
    path = f"{bin}:{launcher.env()['PATH']}"
    done = launcher("-s", "ok.sh", "--nsys", env={"PATH": path})
    assert done.returncode == 0, done.stderr
    assert "hello from" in done.stdout
    (report,) = Path(launcher.runs).rglob("*.nsys-rep")
    assert report.name.startswith("profile-")
    assert "nsys profiling is for diagnosis" in done.stdout + done.stderr


def test_without_nsys_nothing_is_started(launcher: Launcher) -> None:
    launcher.write("ok.sh", "true\n")
    done = launcher("-s", "ok.sh", "--nsys", env={"PATH": f"{launcher.python.parent}:/usr/bin:/bin"})
    assert done.returncode == 2
    assert "there is no nsys on PATH" in done.stderr
    assert "Nsight Systems" in done.stderr
    assert not list(Path(launcher.runs).rglob("*.nsys-rep"))
