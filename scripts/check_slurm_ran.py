"""Fails if the tests that need a real Slurm cluster did not run: a green report must not hide that.

check_slurm_ran.py JUNIT_XML
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def main(report: str) -> int:
    """The exit code: 0 when Slurm tests exist and none was skipped for want of Slurm."""
    skipped = [
        f"{case.get('classname')}::{case.get('name')}: {reason.get('message')}"
        for case in ElementTree.parse(report).iter("testcase")
        for reason in case.iter("skipped")
        if "slurm" in (reason.get("message") or "").lower()
    ]
    if skipped:
        print("Slurm tests were skipped:", *skipped, sep="\n  ", file=sys.stderr)
        return 1
    collect = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-m", "slurm"]
    if subprocess.run(collect, stdout=subprocess.DEVNULL).returncode != 0:
        print("No test is marked `slurm`: nothing was tried on a real cluster.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
