"""Tasks that are started again, on every executor: which ends it is for, how often, and from where they go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_launch.executors.base import State
from tests.conformance.site import Run, Site

#: Tells its attempt, then does what the first argument says for it (the second for the second attempt …).
PAYLOAD = """#!/bin/bash
echo "attempt $NEMO_LAUNCH_ATTEMPT from ${NEMO_LAUNCH_RESTORE_FROM:-the start}"
mkdir -p "$NEMO_LAUNCH_TASK_DIR/checkpoints/step-$NEMO_LAUNCH_ATTEMPT"
ln -sfn "step-$NEMO_LAUNCH_ATTEMPT" "$NEMO_LAUNCH_TASK_DIR/checkpoints/latest"
shift "$NEMO_LAUNCH_ATTEMPT"
case $1 in
wait) while :; do sleep 0.1; done ;;
*) exit "$1" ;;
esac
"""


def attempts(run: Run) -> list[str]:
    return [line for line in run.log("a").splitlines() if line.startswith("attempt ")]


@pytest.mark.slow
def test_an_error_that_the_policy_names_starts_again_at_the_latest_checkpoint(site: Site) -> None:
    run = site.launch(
        site.task("a", PAYLOAD, "7", "9", "0"),
        site.task("b", "#!/bin/sh\necho dependant\n", after=["a"]),
        resume_on="error:7,9",
    )
    latest = run.where("a").job_dir + "/checkpoints/latest"
    seen = run.wait(120)
    assert (seen["a"].state, seen["a"].attempt, seen["a"].exit_code) == (State.SUCCEEDED, 2, 0)
    assert attempts(run) == ["attempt 0 from the start", f"attempt 1 from {latest}", f"attempt 2 from {latest}"]
    assert seen["b"].state is State.SUCCEEDED and run.log("b") == "dependant\n"
    assert "nemo_launch: attempt 3 of at most 11, because it failed\n" in run.log("a")
    whole = [source for source in run.executor.log_sources(*run.jobs("a")) if source.rank is None]
    assert [source.attempt for source in whole] == [2, 1, 0]
    text = Path(whole[0].path).read_bytes()
    assert [b"attempt 0 " in text[source.begin :] for source in whole] == [False, False, True]


@pytest.mark.parametrize(
    ("policy", "codes", "reason"),
    [
        ({}, ["7"], "failed first: exit 7"),
        ({"resume_on": "error:9,timeout"}, ["7"], "failed first: exit 7"),
        pytest.param(
            {"resume_on": "error", "max_restarts": 1},
            ["7", "8"],
            "not started again: it has been 1 times",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_error_that_the_policy_does_not_have_or_no_more_is_the_end(
    site: Site, policy: dict[str, object], codes: list[str], reason: str
) -> None:
    run = site.launch(site.task("a", PAYLOAD, *codes, "0"), **policy)
    seen = run.wait()["a"]
    assert (seen.state, seen.exit_code, seen.attempt) == (State.FAILED, int(codes[-1]), len(codes) - 1)
    assert reason in seen.reason
    assert len(attempts(run)) == len(codes)


@pytest.mark.parametrize("when", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_cancelled_is_not_started_again(site: Site, when: int) -> None:
    run = site.launch(site.task("a", PAYLOAD, *["7"] * (when - 1), "wait", "0"), resume_on="error")
    run.until(lambda seen: len(attempts(run)) == when)
    assert run.cancel()["a"].state is State.CANCELLED
    assert run.wait()["a"].state is State.CANCELLED
    assert len(attempts(run)) == when
