"""What status says while jobs are preempted, run out of time, lose their node, their controller, their accounting …

The table of docs/status.md is this test's own; NEMO_LAUNCH_WRITE_DOCS=1 writes it anew.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.docs.page import ROOT
from tests.e2e.conftest import MakeScene
from tests.e2e.events import WAITS, Admin, Answer, Watcher
from tests.e2e.scene import Scene
from tests.lab import Lab

PAGE = ROOT / "docs" / "status.md"
HEAD = "| what happened | after | status | reason |\n|---|---|---|---|\n"
#: Seen or not, as the moment of the question will have it.
PASSING = re.compile(
    r"ending$|its nodes are being made ready$|no longer in the queue|waits for (its turn|free)|its last run"
)
MEMORY_EVENT = "takes more memory than it asked for"
NODES = ("a3m-0", "a3m-1", "a3u-0", "a3u-1")
#: Takes 600 MB.
MEMORY = '#!/bin/sh\nexec python3 -c "import time; taken = [bytearray(1 << 20) for _ in range(600)]; time.sleep(60)"\n'


@dataclass
class Show:
    """Launching, and what happened to which experiment."""

    scene: Scene
    watcher: Watcher
    events: list[tuple[str, str, float]] = field(default_factory=list)

    def launch(self, title: str, *words: str, script: str = "waits.sh", code: int = 0) -> str:
        """The job's id."""
        partition = () if "-p" in words else ("-p", "a3m")
        args = ("--", str(code)) if script == "waits.sh" else ()
        named = ("--experiment-name", title, "--mem", "100M")
        executor = () if "-e" in words else ("-e", "a3m-1")
        done = self.scene(*executor, *partition, *words, *named, "-s", script, *args)
        assert done.returncode == 0, done.stderr
        return str(re.findall(r"- Job id: (\d+)", done.stdout)[0])

    def running(self, *titles: str) -> None:
        for title in titles:
            self.watcher.until(title, "RUNNING")

    def happens(self, title: str, what: str, afresh: bool = False) -> None:
        """From now on the answers about that experiment are this event's; ``afresh``: also one that is as before."""
        self.events.append((title, what, time.time()))
        if afresh:
            self.watcher.answers[title].append(Answer(0, "", ""))

    def over(self, *titles: str) -> None:
        """What is said of them from now on belongs to no event."""
        self.events += [(title, "", time.time()) for title in titles]

    def go(self, *titles: str) -> None:
        for title in titles:
            (self.scene.launcher.work / f"go-{title}").touch()

    def rows(self) -> Iterator[tuple[str, float, Answer]]:
        """What was said after each event, up to the next one of the same experiment."""
        for number, (title, what, at) in enumerate(self.events):
            later = [then for other, _, then in self.events[number + 1 :] if other == title]
            end = later[0] if later else float("inf")
            said = [one for one in self.watcher.answers[title] if at <= one.at < end and not _passing(one)]
            for place, one in enumerate(said):
                if what and not any(_explains(other, one) for other in said[place + 1 :]):
                    yield what, one.at - at, one


def _passing(answer: Answer) -> bool:
    if answer.state == "SUBMITTED" or (answer.state == "PENDING" and not answer.words):
        return True
    return bool(PASSING.match(answer.words) and "follows" not in answer.words)


def _explains(later: Answer, earlier: Answer) -> bool:
    """Accounting told more: the code, or by whom; a run that had just begun told that it had, or ended."""
    if earlier.state == "RUNNING" and not earlier.words:
        return later.state in ("FAILED", "SUCCEEDED") or later.words.startswith("attempt")
    final = earlier.state in ("FAILED", "CANCELLED", "SUCCEEDED")
    return final and later.state == earlier.state and later.words.startswith(earlier.words)


def _cell(answer: Answer) -> str:
    """A reason as the table has it: what Slurm's commands say of a controller that is away differs each time."""
    if answer.state == "PENDING" and "follows" in answer.words:  # why it waits depends on what else waits
        return answer.words.rpartition("; ")[2]
    return re.sub(r"(does not answer): .*?(; last known|$)", r"\1 …\2", answer.words)


def table(show: Show) -> str:
    lines: list[str] = []
    before = ""
    for what, after, answer in show.rows():
        line = (f"{after:.0f} s", f"`{answer.state}`", _cell(answer).replace("|", "\\|"))
        if lines and before == what and lines[-1].split(" | ")[2:] == [line[1], f"{line[2]} |"]:
            continue
        lines.append(f"| {what if what != before else ''} | {' | '.join(line)} |")
        before = what
    return HEAD + "".join(f"{line}\n" for line in lines)


def preemption(show: Show, admin: Admin) -> None:
    show.launch("away", "-e", "a3m-0", "--exclusive", "--resume-on", "preempted")
    show.launch("lost", "-e", "a3u-0", "-p", "cancelled", "--exclusive")
    show.running("away", "lost")
    show.happens("away", "preempted, `PreemptMode=REQUEUE`, `--resume-on preempted`")
    show.happens("lost", "preempted, `PreemptMode=CANCEL`")
    for node in ("a3m-0", "a3u-0"):
        admin("sbatch", "-p", "high", "-w", node, "--exclusive", "-o", "/dev/null", "--wrap", "sleep 3")
    show.watcher.until("lost", "FAILED")
    show.watcher.until("away", "RUNNING", words="attempt 2")
    show.go("away")


def ends(show: Show, admin: Admin) -> None:
    """Ends that need no broken daemon; the time limit is what takes its time."""
    show.launch("limit", "--time", "1")
    if _watches_memory(show.scene.launcher.lab):
        show.launch("memory", script="memory.sh")
        show.happens("memory", MEMORY_EVENT)
    again = show.launch("again", "--resume-on", "preempted")
    outside, root = show.launch("outside"), show.launch("root")
    for name in ("code", "good", "inside"):
        show.launch(name, code=7 if name == "code" else 0)
    show.running("limit", "again", "outside", "root", "code", "good", "inside")
    show.happens("limit", "its time limit is reached (1 min)")
    show.happens("again", "`scontrol requeue` (with any `--resume-on`)")
    admin("scontrol", "requeue", again)
    show.happens("outside", "`scancel` by its user")
    show.scene.launcher.lab.scancel(outside)  # type: ignore[union-attr]
    show.happens("root", "`scancel` by root")
    admin("scancel", root)
    show.happens("inside", "`run.py cancel`")
    assert show.scene("cancel", "inside").returncode == 0
    show.happens("code", "exits with 7")
    show.happens("good", "exits with 0")
    show.go("code", "good")


def waiting(show: Show, admin: Admin) -> None:
    held = show.launch("held", "--sbatch-arg=--hold")
    show.launch("begin", "--sbatch-arg=--begin=now+1hour")
    show.happens("held", "submitted with `--hold`")
    show.happens("begin", "submitted with `--begin`")
    show.watcher.until("begin", "PENDING", words="start time")
    show.watcher.until("held", "PENDING", words="held")
    show.happens("held", "`scancel` while it waits")
    admin("scancel", held)
    show.watcher.until("held", "CANCELLED", words="root")
    show.over("begin")


def node(show: Show, admin: Admin, lab: Lab) -> None:
    show.launch("node", "-e", "a3u-1", "-p", "a3u")
    show.launch("elsewhere", "-e", "a3u-1", "-p", "a3u", "--resume-on", "node_fail")
    show.running("node", "elsewhere")
    admin.kill("slurmd-a3u-1", signal.SIGKILL)
    show.happens("node", "slurmd of its node is killed")
    show.happens("elsewhere", "the same, `--resume-on node_fail`")
    show.watcher.until("node", "FAILED", words="node")
    show.watcher.until("elsewhere", "PENDING", words="follows")
    lab.start()
    show.watcher.until("elsewhere", "RUNNING", words="attempt 2")
    show.go("elsewhere")
    show.watcher.until("elsewhere", "SUCCEEDED")


def controller(show: Show, admin: Admin, lab: Lab) -> None:
    for name in ("through", "ends"):
        show.launch(name)
    show.running("through", "ends")
    admin.kill("slurmctld")
    show.happens("through", "slurmctld stops for 60 s")
    show.happens("ends", "the same, and it ends meanwhile")
    began = time.monotonic()
    show.watcher.until("through", "RUNNING", words="does not answer")
    show.go("ends")
    show.watcher.until("ends", "SUCCEEDED")
    while time.monotonic() < began + 60:
        time.sleep(0.2)
    lab.start()
    deadline = time.monotonic() + 90
    while show.watcher.answers["through"][-1].words:
        assert time.monotonic() < deadline, show.watcher.answers["through"]
        time.sleep(0.2)


def accounting(show: Show, admin: Admin, lab: Lab) -> None:
    stopped = show.launch("stopped")
    show.launch("bad", code=7)
    show.running("stopped", "bad")
    admin.kill("slurmdbd")
    show.happens("through", "slurmdbd stops, and it goes on", afresh=True)
    show.happens("bad", "the same, and it exits with 7")
    show.happens("stopped", "the same, and `scancel` ends it")
    show.go("bad")
    admin("scancel", stopped)
    show.watcher.until("bad", "FAILED")
    show.watcher.until("stopped", "CANCELLED")
    show.watcher.until("through", "RUNNING")
    show.over("bad", "stopped", "through")
    lab.start()


def wiped(show: Show, admin: Admin, lab: Lab) -> None:
    show.launch("young")
    show.running("young")
    deadline = time.monotonic() + 240
    while lab.slurm("squeue", "-h", "-t", "CD,F,CA,TO,NF,PR,OOM", "-o", "%i"):  # MinJobAge forgets them
        assert time.monotonic() < deadline
        time.sleep(1)
    admin.wipe_accounting()
    for title in ("good", "code", "inside", "young"):
        for path in show.scene.launcher.runs.glob(f"experiments/{title}/*/*/seen.json"):
            path.unlink()  # what was known before must not be what answers
    for title, what in {
        "good": "its job is purged, accounting is wiped: exited with 0",
        "code": "the same: exited with 7",
        "inside": "the same: `run.py cancel`",
        "young": "the same: it runs",
    }.items():
        show.happens(title, what, afresh=True)
    for title, state in {"good": "SUCCEEDED", "code": "FAILED", "inside": "CANCELLED", "young": "RUNNING"}.items():
        show.watcher.until(title, state)
    show.happens("young", "… and ends with 0")
    show.go("young")
    show.watcher.until("young", "SUCCEEDED")
    show.over("young")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_status_says_when(make_scene: MakeScene, slurm_events: Lab) -> None:
    scene, admin, lab = make_scene(slurm_events), Admin(slurm_events), slurm_events
    scene.launcher.write("waits.sh", WAITS, 0o755)
    profiles = [f"{name}:\n  executor: slurm\n  nodelist: {name}\n" for name in NODES]
    scene.launcher.write("profiles.yaml", "".join(profiles))
    scene.launcher.write("memory.sh", MEMORY, 0o755)
    with Watcher(scene).watching() as watcher:
        show = Show(scene, watcher)
        ends(show, admin)
        preemption(show, admin)
        waiting(show, admin)
        node(show, admin, lab)
        watcher.until("limit", "FAILED")
        watcher.until("again", "RUNNING")
        if _watches_memory(lab):
            watcher.until("memory", "FAILED")
        show.go("again")
        watcher.until("again", "SUCCEEDED")
        controller(show, admin, lab)
        accounting(show, admin, lab)
        wiped(show, admin, lab)
        show.go("through")
        watcher.until("through", "SUCCEEDED")
    assert watcher.failed == []
    now = table(show)
    print(now)
    assert {what for what, _, _ in show.rows()} == {what for _, what, _ in show.events if what}
    page = PAGE.read_text()
    before = HEAD + page.split(HEAD, 1)[1].split("\n\n", 1)[0] + "\n"
    if os.environ.get("NEMO_LAUNCH_WRITE_DOCS"):
        PAGE.write_text(page.replace(before, now))
    else:
        _agree(_said(now, lab), _said(before, lab))


def _agree(now: list[list[str]], before: list[list[str]]) -> None:
    """Each event ends as the page has it; on the way there nothing is said that the page has not, in its order.

    What lasts less than a question takes may be missed: the page has it, an answer need not.
    """
    seen, known = _by_event(now), _by_event(before)
    assert list(seen) == list(known)
    for what, answers in seen.items():
        assert answers[-1] == known[what][-1], what
        rest = iter(known[what])
        assert all(answer in rest for answer in answers), (what, answers, known[what])


def _by_event(rows: list[list[str]]) -> dict[str, list[tuple[str, str]]]:
    """Its answers of each event, in order; a row without an event goes on with the one above."""
    events: dict[str, list[tuple[str, str]]] = {}
    for what, state, why in rows:
        events.setdefault(what or list(events)[-1], []).append((state, why))
    return events


def _watches_memory(lab: Lab | None) -> bool:
    return bool(lab and lab.settings.get("NEMO_LAUNCH_LAB_TASK_PLUGIN") == "task/cgroup")


def _said(text: str, lab: Lab) -> list[list[str]]:
    """Its cells without the seconds; where nobody watches the memory, without who takes too much of it."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()]
    rows = [[what, state, why] for what, _, state, why in cells]
    if _watches_memory(lab):
        return rows
    first = next((n for n, row in enumerate(rows) if row[0] == MEMORY_EVENT), len(rows))
    last = next((n for n, row in enumerate(rows) if n > first and row[0]), len(rows))
    return rows[:first] + rows[last:]
