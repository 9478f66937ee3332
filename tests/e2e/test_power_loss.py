"""The launcher's machine dies: what its disk did not have yet is gone, and still no job is lost and none is doubled."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from tests.e2e.scene import Scene, names

LEFT = {"nothing": None, "empty files": b"", "half a file": b'{"schema_version": 1, "ti'}


def command(scene: Scene) -> list[str]:
    ran = str(scene.launcher.workspace / "ran")
    return ["-e", "slurm", "-p", "a3m", "-s", "payload.sh", "--", "payload", ran]


def power_loss(task: Path, left: bytes | None) -> None:
    """What the disk may have of the files that were written last, once the machine runs again."""
    for name in ("intent.json", "handle.json"):
        (task / name).unlink(missing_ok=True)
        if left is not None:
            (task / name).write_bytes(left)
    for launcher in task.parent.glob("launcher-*.json"):
        launcher.write_text(json.dumps({**json.loads(launcher.read_text()), "boot": "the one before"}))


def end_with_the_machine(script: Path) -> None:
    """End the sbatch that is about to submit a script."""
    found = [p for p in psutil.process_iter(["cmdline"]) if str(script) in (p.info["cmdline"] or ())]
    assert found
    for process in found:
        process.kill()
    psutil.wait_procs(found, timeout=60)


@pytest.mark.parametrize(
    "left", ["empty files", *(pytest.param(left, marks=pytest.mark.slow) for left in ("nothing", "half a file"))]
)
def test_a_job_is_found_again_and_not_doubled(wrapped: Scene, left: str) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=3, held=1)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.returned("sbatch"))
    power_loss(wrapped.directory(), LEFT[left])
    (job,) = wrapped.jobs()
    (task,) = wrapped.ended()
    assert (task["state"], task["job_id"]) == ("SUCCEEDED", job)

    power_loss(wrapped.directory(), LEFT[left])
    again = wrapped(*command(wrapped))
    assert again.returncode == 0, again.stderr
    assert names(wrapped.ended()) == ["SUCCEEDED"]
    assert len(wrapped.experiments()) == len(wrapped.jobs()) == len(wrapped.ran()) == 1


@pytest.mark.slow
def test_a_task_that_was_never_submitted_is_submitted_once(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", before=600)
    wrapped.killed(wrapped.start(*command(wrapped)), wrapped.commands.entered("sbatch"))
    wrapped.commands.set("sbatch")
    end_with_the_machine(wrapped.directory() / "job.sh")
    power_loss(wrapped.directory(), None)
    assert names(wrapped.status()) == ["UNSUBMITTED"]
    again = wrapped(*command(wrapped))
    assert again.returncode == 0, again.stderr
    assert names(wrapped.ended()) == ["SUCCEEDED"]
    assert len(wrapped.experiments()) == len(wrapped.jobs()) == len(wrapped.ran()) == 1
