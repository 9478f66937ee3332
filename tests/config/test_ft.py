"""What the fields of ft_launcher may hold, what becomes of them, and that no other executor takes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_launch import LocalExecutor
from nemo_launch.config import ft
from nemo_launch.config.executor import LocalConfig, SlurmConfig
from nemo_launch.config.rules import validate, without_effect
from nemo_launch.config.structure import structure
from nemo_launch.errors import InputError

ON = SlurmConfig(launcher="ft")


def test_options_are_ft_launcher_s_own() -> None:
    made = ft.words(
        replace(
            ON,
            ft_max_restarts=7,
            ft_initial_rank_heartbeat_timeout=600.0,
            ft_rank_heartbeat_timeout=90.5,
            ft_restart_policy="min-healthy",
            ft_args=("--ft-log-level=DEBUG",),
        )
    )
    assert made == (
        "--max-restarts=7", "--ft-initial-rank-heartbeat-timeout=600.0", "--ft-rank-heartbeat-timeout=90.5",
        "--ft-restart-policy=min-healthy", "--ft-log-level=DEBUG",
    )  # fmt: skip
    assert ft.words(ON) == ("--max-restarts=3",)
    assert ft.words(SlurmConfig()) == ()


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"ft_max_restarts": -1}, "less than 0"),
        ({"ft_rank_heartbeat_timeout": 0.0}, "above 0"),
        ({"ft_rank_heartbeat_timeout": float("nan")}, "above 0"),
        ({"ft_args": ("--max_restarts=3",)}, "Use ft_max_restarts instead"),
        ({"ft_args": ("--rdzv-backend=etcd",)}, "the launcher sets it"),
        ({"ft_args": ("-t",)}, "is not an option of ft_launcher"),
        ({"nsys_enabled": True}, "nsys and ft_launcher exclude each other"),
    ],
)
def test_what_cannot_work_is_refused_with_what_helps(fields: dict[str, object], part: str) -> None:
    (problem,) = validate(replace(ON, **fields))  # type: ignore[arg-type]
    assert part in str(problem)


def test_an_option_without_ft_launcher_is_told() -> None:
    assert without_effect(SlurmConfig(ft_max_restarts=5)) == ["ft_max_restarts has no effect without launcher ft"]
    assert without_effect(replace(ON, ft_max_restarts=5)) == []


def test_on_this_machine_it_is_refused_with_the_reason() -> None:
    for make in (lambda: structure(LocalConfig, {"launcher": "ft"}), lambda: LocalExecutor(launcher="ft")):
        with pytest.raises(InputError, match=r"launcher: fault tolerance \(ft_launcher\) is a feature of Slurm jobs"):
            make()
