"""Where the conformance suite runs: one executor, one folder, and short words for launching and asking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_launch.executors.base import Executor, Job, Observation, Plan, State
from nemo_launch.experiments import ledger
from nemo_launch.layout import ExperimentPaths, TaskPaths
from nemo_launch.task import Task


@dataclass
class Run:
    """Tasks that were planned together, as an experiment would."""

    executor: Executor
    paths: ExperimentPaths
    plans: list[Plan]
    book: ledger.FileLedger

    def submit(self) -> Run:
        self.executor.submit(self.plans, self.book)
        return self

    def jobs(self, *names: str) -> list[Job]:
        return [
            ledger.read_job(plan.task.name, plan.paths, plan.task.after)
            for plan in self.plans
            if not names or plan.task.name in names
        ]

    def poll(self) -> dict[str, Observation]:
        return self._by_name(self.executor.poll(self.jobs()))

    def cancel(self, *names: str) -> dict[str, Observation]:
        return self._by_name(self.executor.cancel(self.jobs(*names)))

    def wait(self, timeout: float = 120) -> dict[str, Observation]:
        """Until every task is final."""
        return self.until(lambda seen: all(o.state.final for o in seen.values()), timeout)

    def until(self, true: Callable[[Mapping[str, Observation]], bool], timeout: float = 120) -> dict[str, Observation]:
        deadline = time.monotonic() + timeout
        while not true(seen := self.poll()):
            assert time.monotonic() < deadline, f"after {timeout:g} s: {seen}\n{self.logs()}"
            time.sleep(0.05 if self.executor.kind == "local" else 0.5)
        return seen

    def until_running(self, name: str) -> None:
        self.until(lambda seen: seen[name].state is State.RUNNING)

    def until_file(self, path: Path, timeout: float = 120) -> str:
        """Its text, once the payload has written it (whole lines)."""
        deadline = time.monotonic() + timeout
        while not path.exists() or not path.read_text().endswith("\n"):
            over = all(o.state.final for o in self.poll().values()) and not path.exists()
            assert time.monotonic() < deadline and not over, f"no {path}: {self.poll()}\n{self.logs()}"
            time.sleep(0.05 if self.executor.kind == "local" else 0.5)
        return path.read_text()

    def log(self, name: str) -> str:
        sources = self.executor.log_sources(*self.jobs(name))
        return (self.executor.transport.read(sources[0].path) or b"").decode() if sources else ""

    def logs(self) -> str:
        return "\n".join(f"--- {plan.task.name}\n{self.log(plan.task.name)}" for plan in self.plans)

    def where(self, name: str) -> TaskPaths:
        return next(plan.paths for plan in self.plans if plan.task.name == name)

    def _by_name(self, seen: Mapping[str, Observation]) -> dict[str, Observation]:
        names = {plan.paths.dir: plan.task.name for plan in self.plans}
        return {names[key]: observation for key, observation in seen.items()}


@dataclass
class Site:
    """One executor to try, with its defaults, and a folder that its processes see."""

    folder: Path
    make: Callable[..., Executor]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def task(
        self, name: str, text: str, *args: str, python: bool = False, after: Sequence[str] = (), **more: Any
    ) -> Task:
        """A task whose program has this text."""
        program = self.folder / f"{name}.{'py' if python else 'sh'}"
        if not program.exists() or program.read_text() != text:  # it may be running already
            program.write_text(text)
        program.chmod(0o755)
        return Task(
            name=name,
            recipe=str(program),
            language="python" if python else "shell",
            argv=(str(program), *args),
            work_dir=str(self.folder),
            after=tuple(after),
            **more,
        )

    def prepare(self, *tasks: Task, **fields: Any) -> Run:
        """Plans with their folders, nothing submitted."""
        executor = self.make(**{**self.defaults, **fields})
        assert executor.check(tasks) == []
        number = len(self.runs)
        paths = ExperimentPaths(str(self.folder / "home"), "suite", f"suite_{number}")
        plans = []
        for task in tasks:
            where = paths.task(task.name)
            Path(where.dir).mkdir(parents=True)
            plans.append(executor.plan(task, where))
        run = Run(executor, paths, plans, ledger.FileLedger({plan.task.name: plan.paths for plan in plans}))
        self.runs.append(run)
        return run

    def launch(self, *tasks: Task, **fields: Any) -> Run:
        return self.prepare(*tasks, **fields).submit()

    def close(self) -> None:
        """Nothing that a test started outlives it."""
        for run in self.runs:
            if any(job.intended for job in run.jobs()):
                run.cancel()


#: Writes what it got as JSON: arguments as they are, environment in bytes.
DUMP = """
import json, os, sys
text = json.dumps({
    "argv": [os.fsencode(word).hex() for word in sys.argv[2:]],
    "env": {os.fsencode(k).hex(): os.fsencode(v).hex() for k, v in os.environ.items()},
})
with open(sys.argv[1], "w") as file:
    file.write(text + "\\n")
"""
#: The same for a program that is not Python.
DUMP_SCRIPT = f"""#!/bin/sh
exec '{sys.executable}' -c '{DUMP}' "$@"
"""
