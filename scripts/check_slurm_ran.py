"""Fails if tests that need a real Slurm cluster did not run: a green report must not hide that.

check_slurm_ran.py JUNIT_XML...   all parts of one run, such as the usual tests and the slow ones
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable


def main(reports: list[str]) -> int:
    """The exit code: 0 when there are Slurm tests, each is in a report, and none was skipped for want of Slurm."""
    cases = [case for report in reports for case in ElementTree.parse(report).iter("testcase")]
    skipped = [
        f"{_name(case)}: {reason.get('message')}"
        for case in cases
        for reason in case.iter("skipped")
        if "slurm" in (reason.get("message") or "").lower()
    ]
    needed = marked()
    missing = sorted(needed - {_function(_name(case)) for case in cases})
    if skipped:
        print("Slurm tests were skipped:", *skipped, sep="\n  ", file=sys.stderr)
    if missing:
        print("Slurm tests are in none of the reports:", *missing, sep="\n  ", file=sys.stderr)
    if not needed:
        print("No test is marked `slurm`: nothing was tried on a real cluster.", file=sys.stderr)
    return 1 if skipped or missing or not needed else 0


def marked() -> set[str]:
    """The test functions that use a cluster, whatever their parameters."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-m", "slurm"]
    return functions(subprocess.run(collect, stdout=subprocess.PIPE, text=True).stdout.splitlines())


def functions(collected: Iterable[str]) -> set[str]:
    """``tests/x/test_y.py::test_z[1]`` as a report names it, without parameters: ``tests.x.test_y::test_z``."""
    ids = [line.partition(".py::") for line in collected]
    return {_function(f"{file.replace('/', '.')}::{test}") for file, found, test in ids if found}


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _function(name: str) -> str:
    return name.partition("[")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
