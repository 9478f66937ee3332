"""What launching costs beside its floors and peers, as ratios from one run.

    python benchmarks/run.py [--rounds N] [--quick] [--json FILE]

Floors: a bare ``python -c pass``, and sbatch itself. Peers (shown where they are installed): submitit, NeMo-Run.
The Slurm rows need a cluster: the one that SLURM_CONF names, or the tests' own (started when root).
Exit code 1 when a ratio is over its budget; absolute times are shown and never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(HERE)
sys.path[:0] = [HERE, CHECKOUT]

import pairs  # noqa: E402
import recipe_rows  # noqa: E402
import slurm_rows  # noqa: E402


class Row(NamedTuple):
    """One comparison."""

    what: str
    against: str
    value: float
    budget: float | None
    note: str = ""

    @property
    def over(self) -> bool:
        """Whether the budget is broken."""
        return self.budget is not None and self.value > self.budget


def start_up(rounds: int) -> Iterator[Row]:
    """Importing the package and printing help, against a bare interpreter."""
    python = sys.executable
    driver = os.path.join(CHECKOUT, "run.py")
    env = {**os.environ, "PYTHONPATH": CHECKOUT}
    peers = {name: name for name in ("submitit", "nemo_run") if find_spec(name)}
    times = pairs.in_turn(
        rounds,
        bare=lambda: pairs.seconds([python, "-c", "pass"], env),
        package=lambda: pairs.seconds([python, "-c", "import nemo_launch"], env),
        help=lambda: pairs.seconds([python, driver, "--help"], env),
        **{n: (lambda n=n: pairs.seconds([python, "-c", f"import {n}"], env)) for n in peers},
    )
    note = f"bare {1000 * sorted(times['bare'])[rounds // 2]:.0f} ms"
    yield Row("import nemo_launch", "python -c pass", pairs.ratio(times, "package", "bare"), 3, note)
    yield Row("run.py --help", "python -c pass", pairs.ratio(times, "help", "bare"), 8)
    for name in peers:
        yield Row(f"peer: import {name}", "python -c pass", pairs.ratio(times, name, "bare"), None)


def main() -> int:
    """Run all, print the table, judge the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds of each comparison (default 9)")
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--slack", type=float, default=1, help="fail only beyond budget times this (default 1)")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    args = parser.parse_args()
    rounds = 3 if args.quick else args.rounds
    rows = list(start_up(rounds))
    with tempfile.TemporaryDirectory(prefix="nemo-launch-bench-") as folder:
        rows += [Row(*row) for row in recipe_rows.rows(CHECKOUT, folder, rounds)]
    cluster = slurm_rows.cluster_environment(CHECKOUT)
    if cluster is None:
        print("no Slurm cluster here (set SLURM_CONF, or run as root for the tests' own): its rows are missing")
    else:
        with tempfile.TemporaryDirectory(prefix="nemo-launch-bench-", dir="/var/tmp") as folder:
            rows += [Row(*row) for row in slurm_rows.rows(CHECKOUT, folder, cluster, rounds)]
    width = max(len(row.what) for row in rows)
    for row in rows:
        budget = "" if row.budget is None else f"budget {row.budget:g}"
        mark = "OVER" if row.over else ""
        print(f"{row.what:<{width}}  {row.value:6.2f} x {row.against:<28} {budget:<10} {mark} {row.note}".rstrip())
    if args.json:
        with open(args.json, "w") as file:
            json.dump([row._asdict() for row in rows], file, indent=1)
    return 1 if any(row.budget is not None and row.value > row.budget * args.slack for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
