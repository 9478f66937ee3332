"""Which environment a job gets, and how secrets travel: by name, their values only in the memory of processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from nemo_launch import leaks
from nemo_launch.config.executor import ExecutorConfig
from nemo_launch.errors import Problem
from nemo_launch.task import Task

#: What a job inherits from the launcher unless ``inherit_env`` is set.
BASE = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PATH")
#: Passed as secrets whenever they are set where the launcher is called.
TOKENS = ("HF_TOKEN", "WANDB_API_KEY")
_SECRET_WORDS = {"TOKEN", "KEY", "SECRET", "PASSWORD"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
#: Of a surrounding job; a new submission must not see them. SLURM_CONF stays: clients fail without it.
_SURROUNDING = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "SLURMD_", "NEMO_LAUNCH_")

#: What changes how shells, the linker and other tools work. The processes get theirs; the batch script, the scheduler's
#: commands and the runner's utilities must not.
TOOLS = ("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "POSIXLY_CORRECT", "IFS", "SHELLOPTS",
         "BASHOPTS", "GLOBIGNORE", "CDPATH")  # fmt: skip

C = TypeVar("C", bound=ExecutorConfig)


def is_secret(name: str) -> bool:
    """Whether a variable's last ``_`` word is TOKEN, KEY, SECRET or PASSWORD (TOKENIZERS_PARALLELISM is none)."""
    return name.upper().rsplit("_", 1)[-1] in _SECRET_WORDS


def split(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Plain variables and secret ones, by name."""
    plain = {name: value for name, value in env.items() if not is_secret(name)}
    return plain, {name: value for name, value in env.items() if is_secret(name)}


def without_secret_values(config: C) -> tuple[C, dict[str, str]]:
    """The config with the values of secret variables replaced by their names, and those values."""
    plain, values = split(config.env_vars)
    names = tuple(dict.fromkeys((*config.secrets, *values)))
    return replace(config, env_vars=plain, secrets=names), values


def problems(
    env: Mapping[str, str], secrets: Iterable[str], known: Mapping[str, str], where: str = "env"
) -> list[Problem]:
    """What cannot travel: bad names, NUL in values, secrets without a value in ``known``."""
    found = []
    for name in (*env, *secrets):
        if not _NAME.match(name):
            found.append(
                Problem(
                    f"{name!r} is not a name that every shell passes on",
                    where,
                    "Use letters, digits and _, not starting with a digit.",
                )
            )
    for name, value in env.items():
        if "\0" in value:
            found.append(Problem(f"the value of {name} has a NUL byte, which no environment can carry", where))
    for name in secrets:
        if _NAME.match(name) and name not in known:
            found.append(
                Problem(
                    f"secret {name} has no value: it is not set here",
                    "secrets",
                    f"export {name}=… before launching, or leave it out.",
                )
            )
    return found


def of_request(
    config: ExecutorConfig, tasks: Iterable[Task], given: Mapping[str, str], environ: Mapping[str, str]
) -> list[Problem]:
    """What cannot travel, or shows a secret, of the config and of each task.

    ``given`` are values of secrets that came with the config.
    """
    known = {**environ, **given}
    found = [
        Problem(
            f"{name} is a secret, and env_vars has a value for it, which would be written down",
            "env_vars",
            "Leave one of them out.",
        )
        for name in config.secrets
        if name in config.env_vars and not is_secret(name)
    ]
    found += problems(config.env_vars, config.secrets, known, "env_vars")
    told: dict[str, str] = {}
    for task in tasks:
        own = {**known, **task.secret_values}
        found += problems(task.env, task.secrets, own)
        names = secret_names(config, task.secrets, {**given, **task.secret_values}, environ)
        values = secret_values(names, own, {})
        told |= values
        for one in (task, *(member.task for member in task.members)):
            found += leaks.of_task(one, values)
    return [*found, *leaks.of_config(config, told)]


def job_environment(config: ExecutorConfig, task_env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a job, without secrets.

    Base list (or all) and passthrough, what follows from the config's folders, ``env_vars``, the task's; later wins.
    """
    if config.inherit_env:
        env = {name: value for name, value in environ.items() if _inherited(name) and not is_secret(name)}
    else:
        env = {name: environ[name] for name in (*BASE, *config.passthrough) if name in environ and not is_secret(name)}
    env.update(folders(config))
    env.update(config.env_vars)
    env.update(task_env)
    return env


def _inherited(name: str) -> bool:
    """Whether ``inherit_env`` is about this variable: nothing of a surrounding job, no shell's functions."""
    return not name.startswith(_SURROUNDING) and bool(_NAME.match(name))


def _is_option(name: str) -> bool:
    """Whether sbatch or srun would take it for an option; who gives one means the processes."""
    return name.startswith(("SBATCH_", "SRUN_", "SLURM_")) and not name.startswith("SLURM_CONF")


def apart(
    env: Mapping[str, str], environ: Mapping[str, str], names: Iterable[str] = TOOLS
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(environment of the batch script, NAME=VALUE words for the processes alone).

    ``environ`` is the launcher's own, whose PATH the script uses; ``names``: no others are taken apart.
    """
    path = environ.get("PATH") or os.defpath
    asked = set(names)
    words = {name: env[name] for name in env if name in asked and (name in TOOLS or _is_option(name))}
    if words.get("PATH") == path:
        del words["PATH"]
    outer = {name: value for name, value in env.items() if name not in words}
    return {**outer, "PATH": path}, tuple(f"{name}={value}" for name, value in words.items())


def folders(config: ExecutorConfig) -> dict[str, str]:
    """Variables by which programs find the log, cache and data folders. Megatron's caches are below TORCH_HOME."""
    env = {}
    if config.log_dir:
        env["NEMO_LAUNCH_LOG_DIR"] = config.log_dir
    if config.data_dir:
        env["NEMO_LAUNCH_DATA_DIR"] = config.data_dir
    if config.cache_dir:
        env["HF_HOME"] = f"{config.cache_dir.rstrip('/')}/huggingface"
        env["TORCH_HOME"] = f"{config.cache_dir.rstrip('/')}/torch"
    return env


def own_caches(config: ExecutorConfig, work_dir: str) -> dict[str, str]:
    """Where megatron's caches go in a container that was given no cache folder: into the mount of the work dir.

    A tokenizer is downloaded into the current directory and renamed into the cache, which fails across two mounts
    (``Invalid cross-device link``); an image's own folder is one, and often read-only.
    """
    if not getattr(config, "container_image", None) or config.cache_dir or not work_dir:
        return {}
    return {"TORCH_HOME": os.path.join(work_dir, ".cache", "torch")}


def secret_names(
    config: ExecutorConfig, task_secrets: Iterable[str], given: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Names that were asked for, and the usual tokens where they are set; with ``inherit_env`` all that look secret."""
    usual = [name for name in TOKENS if given.get(name) or environ.get(name)]
    wanted = [name for name in environ if _inherited(name)] if config.inherit_env else config.passthrough
    passed = [name for name in wanted if is_secret(name) and name in environ]
    return tuple(dict.fromkeys((*config.secrets, *task_secrets, *passed, *usual)))


def secret_values(names: Iterable[str], given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Values for the names that have one: given in Python first, then this process's environment."""
    return {name: given[name] if name in given else environ[name] for name in names if name in given or name in environ}
