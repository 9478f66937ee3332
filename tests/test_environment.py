"""Which variables a job gets: a base list, what follows from the config, what was asked for; secrets by name."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_launch import environment
from nemo_launch.config.executor import LocalConfig

AROUND = {
    "PATH": "/bin",
    "LANG": "C.UTF-8",
    "EDITOR": "vi",
    "SLURM_JOB_ID": "7",
    "NEMO_LAUNCH_TASK_DIR": "/outer",
    "WEB_TOKEN": "s3cr3t",
    "BASH_FUNC_module%%": "() { :; }",
}


def job(task_env: dict[str, str] | None = None, **fields: Any) -> dict[str, str]:
    return environment.job_environment(LocalConfig(**fields), task_env or {}, AROUND)


def test_only_the_base_list_is_inherited() -> None:
    assert job() == {"PATH": "/bin", "LANG": "C.UTF-8"}


def test_the_whole_environment_is_without_secrets_and_without_the_surrounding_job() -> None:
    assert job(inherit_env=True) == {"PATH": "/bin", "LANG": "C.UTF-8", "EDITOR": "vi"}


def test_with_the_whole_environment_secrets_travel_by_name() -> None:
    around = {**AROUND, "NGC_API_KEY": "k", "SLURM_JWT_KEY": "outer", "NO WORD_KEY": "x"}
    names = environment.secret_names(LocalConfig(inherit_env=True), ["MINE"], {}, around)
    assert names == ("MINE", "WEB_TOKEN", "NGC_API_KEY")
    assert environment.secret_names(LocalConfig(), ["MINE"], {}, around) == ("MINE",)


def test_names_that_are_passed_through() -> None:
    assert job(passthrough=("EDITOR", "NOT_SET"))["EDITOR"] == "vi"
    assert "NOT_SET" not in job(passthrough=("NOT_SET",))


def test_programs_find_the_folders() -> None:
    env = job(log_dir="/logs", cache_dir="/cache/", data_dir="/data")
    assert (env["NEMO_LAUNCH_LOG_DIR"], env["NEMO_LAUNCH_DATA_DIR"]) == ("/logs", "/data")
    assert (env["HF_HOME"], env["TORCH_HOME"]) == ("/cache/huggingface", "/cache/torch")


def test_what_was_asked_for_wins_the_task_over_the_executor() -> None:
    fields: dict[str, Any] = {"data_dir": "/data", "env_vars": {"NEMO_LAUNCH_DATA_DIR": "/mine", "A": "1"}}
    assert job({"A": "2"}, **fields) == {**job(), "NEMO_LAUNCH_DATA_DIR": "/mine", "A": "2"}


@pytest.mark.parametrize("name", ["HF_TOKEN", "aws_secret_access_key", "PASSWORD", "A_SECRET"])
def test_secrets_are_known_by_their_last_word(name: str) -> None:
    assert environment.is_secret(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYS", "MONKEY", "SECRETARY_NAME"])
def test_what_only_looks_like_a_secret(name: str) -> None:
    assert not environment.is_secret(name)


def test_a_value_given_in_python_wins_over_the_environment() -> None:
    assert environment.secret_values(("A", "B", "C"), {"A": "given"}, {"A": "set", "B": "set"}) == {
        "A": "given",
        "B": "set",
    }
