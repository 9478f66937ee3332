"""Timing whole commands in turn (A B A B …), so that a machine whose speed drifts does not decide the comparison."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median


def seconds(argv: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """Wall time of one run of a command, which must succeed."""
    start = time.perf_counter()
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    spent = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return spent


def in_turn(rounds: int, **subjects: Callable[[], float]) -> dict[str, list[float]]:
    """Each subject timed once a round, after one round that does not count. A subject returns its own seconds."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 1):
        for name, subject in subjects.items():
            spent = subject()
            if number:
                times[name].append(spent)
    return times


def ratio(times: Mapping[str, Sequence[float]], subject: str, floor: str, minus: str | None = None) -> float:
    """Median over the rounds of (subject - minus) / floor."""
    off = times[minus] if minus else [0.0] * len(times[subject])
    return median((a - c) / b for a, b, c in zip(times[subject], times[floor], off, strict=True))
