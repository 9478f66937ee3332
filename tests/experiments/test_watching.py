"""Watching for an hour, with a simulated clock: the questions become rare, and nothing piles up."""

from __future__ import annotations

import gc
import io
import os
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_launch.executors.base import Handle, Job, Observation, State
from nemo_launch.executors.slurm import poll as polling
from nemo_launch.executors.slurm.query import SEPARATOR
from nemo_launch.experiments import waiting
from nemo_launch.experiments.observing import TaskStatus
from nemo_launch.layout import ExperimentPaths
from nemo_launch.transport import Completed, LocalTransport
from nemo_launch.views import watch

HOUR = 3600.0


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-6)


class Queue(LocalTransport):
    """A controller that shows the same jobs all the time, until they are told to end."""

    def __init__(self, jobs: Sequence[Job], clock: Clock) -> None:
        self.jobs, self.clock, self.asked = jobs, clock, list[float]()
        self.state: Callable[[int], str] = lambda number: "RUNNING"

    def run(self, argv, **_):  # type: ignore[no-untyped-def]
        self.asked.append(self.clock.now)
        rows = []
        for number, job in enumerate(self.jobs):
            fields = (str(job.handle), self.state(number), "None", "999000", "999100", "N/A", "n0", job.paths.script)
            rows.append(SEPARATOR.join(fields))
        return Completed(0, "\n".join(rows), "")


class Scene:
    """Some tasks, asked through the real poll."""

    def __init__(self, folder: Path, tasks: int) -> None:
        self.clock = Clock()
        where = ExperimentPaths(str(folder), "demo", "demo_1")
        self.jobs = [
            Job(f"t{n}", where.task(f"t{n}"), Handle(str(100 + n)), 999_000.0, 999_000.0) for n in range(tasks)
        ]
        for job in self.jobs:
            os.makedirs(job.paths.dir)
        self.transport = Queue(self.jobs, self.clock)
        self.executor: Any = SimpleNamespace(
            kind="slurm", transport=self.transport, title="SlurmExecutor on @localhost"
        )

    def ask(self) -> list[TaskStatus]:
        seen = polling.poll(self.transport, self.jobs, self.clock)
        return [TaskStatus(job.name, job, self.executor, seen[job.key]) for job in self.jobs]

    def wait(self, timeout: float | None, **more: Any) -> list[TaskStatus]:
        more.setdefault("sleep", self.clock.sleep)
        return waiting.wait(self.ask, timeout=timeout, clock=self.clock, **more)

    def pauses(self) -> list[float]:
        asked = self.transport.asked
        return [later - earlier for earlier, later in zip(asked, asked[1:], strict=False)]


def screens() -> tuple[watch.Screen, io.StringIO]:
    from rich.console import Console
    from rich.live import Live

    out = io.StringIO()
    live = Live(console=Console(file=out, force_terminal=True, width=100, height=30), auto_refresh=False)
    live.start()
    return watch.Screen(live), out


@pytest.mark.parametrize("on_terminal", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["lines", "screen"])
def test_an_hour_of_watching_grows_its_interval_and_holds_memory_flat(tmp_path: Path, on_terminal: bool) -> None:
    scene = Scene(tmp_path, 3)
    said: list[str] = []
    view: Any = watch.Lines(said.append, scene.clock)
    out = io.StringIO()
    if on_terminal:
        view, out = screens()

    def nap(seconds: float) -> None:
        scene.clock.sleep(seconds)
        view.tick()
        out.seek(0)
        out.truncate()  # a terminal keeps no copy

    used: list[int] = []

    def answered(statuses: list[TaskStatus]) -> None:
        view(statuses)
        gc.collect()
        used.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        scene.wait(HOUR, sleep=nap, on_answer=answered)
    finally:
        tracemalloc.stop()
    pauses = scene.pauses()
    assert pauses[0] == pytest.approx(10, abs=1)
    assert pauses[-1] == pytest.approx(60, abs=1)
    assert all(later >= earlier - 1 for earlier, later in zip(pauses, pauses[1:], strict=False))
    assert 60 <= len(scene.transport.asked) <= 70
    quarter = len(used) // 4
    assert max(used[-quarter:]) - max(used[quarter : 2 * quarter]) < 20_000, used
    if not on_terminal:
        assert len(said) == 3, "a line for each change, and nothing has changed"


def test_a_change_brings_the_short_interval_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    end = scene.clock.now + 600
    scene.transport.state = lambda number: "RUNNING" if scene.clock.now > end else "PENDING"
    scene.wait(1200)
    pauses = scene.pauses()
    longest = pauses.index(max(pauses[: len(pauses) // 2 + 1]))
    assert max(pauses) == pytest.approx(60, abs=1)
    assert min(pauses[longest:]) == pytest.approx(10, abs=1)


def test_the_interval_is_the_users_choice(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.wait(1000, interval=120)
    assert [round(pause) for pause in scene.pauses()] == [120] * 8


def test_a_job_that_takes_long_to_end_is_not_asked_for_each_second(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    (job,) = scene.jobs
    record = '{"exit_code": 143, "cause": "signal", "signal": "SIGTERM", "started": 999100, "ended": 999999}'
    Path(job.paths.exit_record("100", 0)).write_text(record)
    scene.transport.state = lambda number: "COMPLETING"
    (status,) = scene.wait(HOUR)
    assert status.observation.state is State.RUNNING and status.observation.raw == "COMPLETING"
    calls = [at for at in scene.transport.asked if at < 1_000_000 + HOUR]
    assert scene.pauses()[0] == pytest.approx(1, abs=1) and len(calls) < 200


def test_an_exit_record_brings_the_next_question_forward(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    done = scene.clock.now + 200

    def sleep(seconds: float) -> None:
        scene.clock.sleep(seconds)
        if scene.clock.now >= done:
            for job in scene.jobs:
                where = Path(job.paths.exit_record(str(job.handle), 0))
                where.write_text('{"exit_code": 0, "cause": "ended", "started": 999100, "ended": 1000200}')

    statuses = scene.wait(HOUR, sleep=sleep)
    assert [str(status.observation.state) for status in statuses] == ["SUCCEEDED"] * 2
    assert scene.clock.now - done < 3


# -- what is shown ------------------------------------------------------------------------------------------------


def status(name: str, observation: Observation, job_id: str | None = "75") -> TaskStatus:
    paths = ExperimentPaths("/w", "demo", "demo_1").task(name)
    executor: Any = SimpleNamespace()
    return TaskStatus(name, Job(name, paths, Handle(job_id) if job_id else None), executor, observation)


def test_lines_tell_what_changed_and_only_that() -> None:
    said: list[str] = []
    lines = watch.Lines(said.append, lambda: 0.0)
    waits = Observation(State.PENDING, reason="waits for free resources")
    lines([status("a", waits), status("b", Observation(State.UNSUBMITTED), None)])
    lines([status("a", waits), status("b", Observation(State.UNSUBMITTED), None)])
    lines([status("a", Observation(State.RUNNING, nodes="n[0-1]")), status("b", waits)])
    lines([status("a", Observation(State.RUNNING, nodes="n[0-1]", age=3.0, reason="away")), status("b", waits)])
    lines([status("a", Observation(State.RUNNING, nodes="n[0-1]", age=9.0, reason="away")), status("b", waits)])
    lines([status("a", Observation(State.FAILED, exit_code=7, reason="exit code 7")), status("b", waits)])
    assert [line.rstrip("\n").split("  ", 1)[1] for line in said] == [
        "demo_1/a  PENDING  job 75; waits for free resources",
        "demo_1/b  UNSUBMITTED",
        "demo_1/a  RUNNING  job 75 on n[0-1]",
        "demo_1/b  PENDING  job 75; waits for free resources",
        "demo_1/a  RUNNING  job 75 on n[0-1]; away; last known",
        "demo_1/a  FAILED  job 75; exit code 7",
    ]


def test_where_there_is_not_room_for_all_the_failed_and_running_come_first() -> None:
    states = [State.SUCCEEDED, State.PENDING, State.RUNNING, State.SUCCEEDED, State.FAILED]
    tasks = [status(str(n), Observation(state)) for n, state in enumerate(states)]
    shown, hidden = watch.fitting(tasks, 2)
    assert [one.name for one in shown] == ["2", "4"] and [one.name for one in hidden] == ["0", "1", "3"]
    assert watch.fitting(tasks, 5) == (tasks, [])
    assert len(watch.fitting(tasks, -3)[0]) == 1


def test_the_screen_shows_every_task_and_what_to_do() -> None:
    view, out = screens()
    view([status("a", Observation(State.RUNNING, nodes="n0", started=1.0)), status("b", Observation(State.PENDING))])
    text = out.getvalue()
    assert "demo_1" in text and "RUNNING" in text and "n0" in text and "PENDING" in text and "Ctrl-C" in text
