"""kill -9 of a launcher of several tasks: each runs once, in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.e2e.conftest import MakeScene
from tests.e2e.killing import Story, ended_first, on_disk
from tests.e2e.scene import Scene, names
from tests.faults import Rules, after, exists
from tests.lab import Lab

THREE = """
import sys
import nemo_launch as nl
executor = nl.SlurmExecutor(partition="a3m")
with nl.Experiment("three", executor=executor) as exp:
    a = exp.add(nl.Script("payload.sh", args=["a", {ran!r}]), name="a")
    b = exp.add(nl.Script("payload.sh", args=["b", {ran!r}]), name="b", dependencies=[a])
    exp.add(nl.Script("payload.sh", args=["c", {ran!r}]), name="c", dependencies=[a, b])
    exp.run(detach=True)
"""


def three(scene: Scene) -> str:
    return THREE.format(ran=str(scene.launcher.workspace / "ran"))


POINTS: dict[str, tuple[Callable[[Scene], Callable[[], bool]], Rules]] = {
    "before the first": (on_disk("experiments/*/*/experiment.json"), Rules()),
    "in the first": (lambda s: s.commands.entered("sbatch"), Rules(before=1, held=1)),  # type: ignore[union-attr]
    "after the first": (on_disk("experiments/*/*/a/handle.json"), Rules(before=0.3)),
    "in the second, submitted": (lambda s: s.commands.returned("sbatch", 2), Rules(after=1, held=2)),  # type: ignore[union-attr]
    "in the third, not yet submitted": (lambda s: s.commands.entered("sbatch", 3), Rules(before=1, held=3)),  # type: ignore[union-attr]
    "after the third": (on_disk("experiments/*/*/c/handle.json"), Rules()),
    "some time": (lambda s: after(0.9), Rules(before=0.2)),
}


def play_three(scene: Scene, name: str) -> Story:
    point, rules = POINTS[name]
    assert scene.commands is not None
    scene.commands.set("sbatch", rules)
    killed = scene.killed(scene.start_python(three(scene)), point(scene))
    finished = ended_first(scene, killed)
    first = scene.status() if scene.experiments() else None
    again = scene.run_python(three(scene), timeout=200)
    for experiment in scene.experiments():
        last = scene.ended(experiment, timeout=90)
    return Story(killed, first, again, last, scene.experiments(), scene.jobs(), scene.ran(), finished)


@pytest.fixture(scope="module")
def stories_of_three(make_scene: MakeScene, slurm: Lab) -> Iterator[dict[str, Future[Story]]]:
    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(play_three, make_scene(slurm, True), name) for name in POINTS}


@pytest.mark.parametrize("name", POINTS)
def test_three_tasks_with_dependencies_each_run_once_in_order(
    stories_of_three: dict[str, Future[Story]], name: str
) -> None:
    story = stories_of_three[name].result()
    assert story.again.returncode == 0, story.again.stderr
    assert names(story.last) == ["SUCCEEDED"] * 3
    assert set(story.jobs) >= set(names(story.last, "job_id"))
    assert len(story.experiments) == story.launches
    # two experiments know nothing of each other, so that their jobs may run in turns: the order is one's own
    order: dict[str, list[str]] = {experiment: [] for experiment in story.experiments}
    for line in story.ran:
        word, _, experiment = line.split()
        order[experiment].append(word)
    assert order == {experiment: ["a", "b", "c"] for experiment in story.experiments}
    assert sorted(line.split()[1] for line in story.ran) == sorted(story.jobs)
    assert len(story.jobs) == 3 * len(story.experiments)


def test_a_predecessor_that_failed_meanwhile_skips_what_was_not_submitted(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    text = three(wrapped).replace('nl.Script("payload.sh", args=["a"', 'nl.Script("fails.sh", args=["a"')
    wrapped.launcher.write("fails.sh", "exit 5\n", 0o755)
    wrapped.commands.set("sbatch", before=1, held=2)
    wrapped.killed(wrapped.start_python(text), exists(wrapped.launcher.runs, "experiments/*/*/a/handle.json"))
    wrapped.until(lambda tasks: tasks[0]["state"] == "FAILED")
    done = wrapped.run_python(text)
    assert done.returncode == 0, done.stderr
    tasks = wrapped.ended()
    assert names(tasks) == ["FAILED", "CANCELLED", "CANCELLED"]
    assert names(tasks, "skipped") == [False, True, True]
    assert wrapped.ran() == []


def test_cancelled_while_its_launcher_is_still_submitting(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", before=1)
    ran = str(wrapped.launcher.workspace / "ran")
    launcher = wrapped.start_python(three(wrapped).replace(f'"a", {ran!r}', f'"a", {ran!r}, "600"'))
    deadline = time.monotonic() + 90
    while not exists(wrapped.launcher.runs, "experiments/*/*/a/handle.json")():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert wrapped("cancel", "three").returncode == 0
    launcher.wait(120)
    tasks = wrapped.ended()
    assert {line.split()[0] for line in wrapped.ran()} <= {"a"}
    assert names(tasks)[1:] == ["CANCELLED", "CANCELLED"]
