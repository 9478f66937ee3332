"""What ``--dry-run`` prints: each script byte for byte between two marked lines, everything else as comments.

The lines that mark a script say how many lines it has, so that none of ours can be taken for one of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_launch.executors.base import Executor, Plan
    from nemo_launch.experiments.experiment import Experiment


def render(experiment: Experiment, plans: Sequence[Plan], executor: Executor) -> str:
    """The whole text. It is a shell script in which only the batch scripts are not comments."""
    parts = [f"# Dry run of {experiment.id}: nothing was written, nothing was submitted.\n"]
    for number, plan in enumerate(plans):
        lines = [f"Task {number}: {plan.task.name}", f"Executor: {executor.title}", *_effects(plan)]
        parts.append("\n" + "".join(f"# {_one_line(line)}\n" for line in lines))
        end = "" if plan.script.endswith("\n") else "\n"
        path, count = _one_line(plan.paths.script), (plan.script + end).count("\n")
        parts.append(f"# ---- the next {count} lines are {path} ----\n{plan.script}{end}")
        parts.append(f"\n# ---- that were the {count} lines of {path} ----\n")
    return "".join(parts)


def _effects(plan: Plan) -> Iterator[str]:
    yield f"Local Directory: {plan.paths.dir}"
    yield f"Command: {shlex.join(plan.command)}"
    for name, value in sorted(plan.env.items()):
        yield f"Environment: {name}={shlex.quote(value)}"
    for name in plan.secrets:
        yield f"Secret: {name} (its value is passed on and written nowhere)"
    if plan.task.config is not None:
        from nemo_launch.buildables import resolved

        for line in resolved.text(plan.task.config):
            yield f"Recipe: {line}"
    for path in sorted(plan.files):
        yield f"File: {path} ({len(plan.files[path])} bytes)"
    for code in plan.task.code:
        if code.root == "recipe":
            yield f"Code: what is written for it ({', '.join(path for path, _ in code.files)}), {code.digest[:16]}"
            continue
        yield f"Code: {code.root} as it is now ({len(code.files)} files, snapshot {code.digest[:16]})"
        for note in code.notes:
            yield f"Note: {note}"
    for note in plan.notes:
        yield f"Note: {note}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() or "\udc80" <= c <= "\udcff" else repr(c)[1:-1] for c in text)
