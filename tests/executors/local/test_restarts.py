"""Tasks of this machine that are started again by their supervisor."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from nemo_launch.errors import InputError
from nemo_launch.executors.base import Observation, State
from nemo_launch.executors.local import LocalExecutor
from tests.conformance.site import Run, Site
from tests.conformance.test_restarts import PAYLOAD, attempts


def test_the_time_limit(site: Site) -> None:
    """Each attempt has the whole of it; what takes TERM well was ended all the same."""
    text = PAYLOAD.replace("#!/bin/bash\n", "#!/bin/bash\ntrap 'echo saved; exit 0' TERM\n")
    run = site.launch(site.task("a", text, "wait", "wait", "0"), resume_on="timeout", time="0:01")
    seen = run.wait()["a"]
    assert (seen.state, seen.attempt, seen.exit_code) == (State.SUCCEEDED, 2, 0)
    log = run.log("a")
    assert len(attempts(run)) == 3 and log.count("saved\n") == 2
    assert "nemo_launch: attempt 2 of at most 11, because it reached its time limit\n" in log


def test_who_ends_when_asked_to_save_is_started_again(site: Site) -> None:
    text = PAYLOAD.replace("#!/bin/bash\n", "#!/bin/bash\ntrap 'exit 138' USR1\n")  # as after USR1
    fields = {"time": "10:00", "margin": "9:58", "signal": "USR1", "resume_on": "timeout"}
    run = site.launch(site.task("a", text, "wait", "0"), **fields)
    assert (run.wait()["a"].state, len(attempts(run))) == (State.SUCCEEDED, 2)


def test_every_answer_on_the_way_is_true(site: Site) -> None:
    """Between two attempts there is an exit record with a bad code, and the task has not ended."""
    run = site.launch(site.task("a", PAYLOAD, *["7"] * 8, "0"), resume_on="error", max_restarts=8)
    said: list[Observation] = []

    def ended(seen: Any) -> bool:
        said.append(seen["a"])
        return bool(seen["a"].state.final)

    run.until(ended)
    assert (said[-1].state, said[-1].attempt) == (State.SUCCEEDED, 8)
    assert [one.attempt for one in said] == sorted(one.attempt for one in said)
    assert all(one.state in (State.PENDING, State.RUNNING) for one in said[:-1])


def test_a_task_that_somebody_else_ended_is_not_started_again(site: Site) -> None:
    run: Run = site.launch(site.task("a", PAYLOAD, "wait", "0"), resume_on="error")
    run.until(lambda seen: bool(attempts(run)))
    (state,) = (site.folder / "home").rglob("state.json")
    os.kill(json.loads(state.read_text())["pid"], signal.SIGTERM)
    assert run.wait()["a"].state is State.FAILED
    assert len(attempts(run)) == 1


def test_secrets_are_there_for_every_attempt(site: Site) -> None:
    secret = "as long as it may be started again"
    os.environ["A_TOKEN"] = secret
    try:
        run = site.launch(
            site.task("a", PAYLOAD.replace("#!/bin/bash", '#!/bin/bash\necho "with $A_TOKEN"'), "7", "0"),
            resume_on="error",
            secrets=("A_TOKEN",),
        )
        assert run.wait()["a"].state is State.SUCCEEDED
    finally:
        del os.environ["A_TOKEN"]
    assert run.log("a").count(f"with {secret}\n") == 2


@pytest.mark.parametrize("cause", ["preempted", "node_fail", "error,node_fail,preempted"])
def test_what_cannot_happen_here_is_refused(cause: str) -> None:
    with pytest.raises(InputError, match="resume_on: .*nobody preempts a task on this machine"):
        LocalExecutor(resume_on=cause)


def test_a_time_limit_that_is_not_there_is_said(site: Site) -> None:
    run = site.prepare(site.task("a", "#!/bin/sh\n"), resume_on="timeout")
    assert "timeout in resume_on has no effect without time" in run.plans[0].notes
