"""The policy of restarts as it is written."""

from __future__ import annotations

import pytest

from nemo_launch.config.resume import ResumeOn


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("timeout,preempted", "preempted,timeout"),
        ("error:7,1, timeout", "timeout,error:1,7"),
        (["error:7", "node_fail"], "node_fail,error:7"),
        ("error", "error"),
        ("never", "never"),
        (ResumeOn(), "never"),
    ],
)
def test_what_is_written_has_one_normal_form(given: object, normal: str) -> None:
    policy = ResumeOn.parse(given)
    assert str(policy) == normal and ResumeOn.parse(normal) == policy
    assert bool(policy) == (normal != "never")


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("timeouts", "Did you mean timeout?"),
        ("timeout:3", "only error takes exit codes"),
        ("error:0", "no exit code from 1 to 255"),
        ("error:", "no exit code"),
        ("never,timeout", "never stands alone"),
        ("timeout,,error", "empty word"),
        ("timeout,7", "no cause"),
        (7, "names no causes"),
    ],
)
def test_what_is_wrong_is_said(given: object, part: str) -> None:
    with pytest.raises(ValueError) as error:
        ResumeOn.parse(given)
    assert part in str(error.value)
