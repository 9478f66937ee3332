"""nemo_launch: a recipe (what to run) meets an executor (where to run it) in an experiment (what happened).

Public names resolve on first use, so that ``import nemo_launch`` costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers see it: True; importing typing would cost more than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from nemo_launch.buildables.recipe import RecipeFile
    from nemo_launch.buildables.types import Config, Partial, autoconvert
    from nemo_launch.config.durations import Duration
    from nemo_launch.config.executor import LocalConfig, SlurmConfig
    from nemo_launch.config.mounts import VolumeMapping
    from nemo_launch.errors import (
        InputError,
        LaunchError,
        NotFound,
        Problem,
        RecordError,
        SchedulerError,
        SchedulerRefused,
        Unreachable,
    )
    from nemo_launch.executors.base import Executor, Failure, Handle, Observation, Plan, State
    from nemo_launch.executors.factory import executor
    from nemo_launch.executors.local import LocalExecutor
    from nemo_launch.executors.slurm import SlurmExecutor
    from nemo_launch.experiments.experiment import Experiment, TaskStatus
    from nemo_launch.recipes import Recipe, Script
    from nemo_launch.task import Task

__version__ = "0.1.0"

_WHERE = {
    "Config": "buildables.types",
    "Duration": "config.durations",
    "Executor": "executors.base",
    "Experiment": "experiments.experiment",
    "Failure": "executors.base",
    "Handle": "executors.base",
    "InputError": "errors",
    "LaunchError": "errors",
    "LocalConfig": "config.executor",
    "LocalExecutor": "executors.local",
    "NotFound": "errors",
    "Observation": "executors.base",
    "Partial": "buildables.types",
    "Plan": "executors.base",
    "Problem": "errors",
    "Recipe": "recipes",
    "RecipeFile": "buildables.recipe",
    "RecordError": "errors",
    "SchedulerError": "errors",
    "SchedulerRefused": "errors",
    "Script": "recipes",
    "SlurmConfig": "config.executor",
    "SlurmExecutor": "executors.slurm",
    "State": "executors.base",
    "Task": "task",
    "TaskStatus": "experiments.experiment",
    "Unreachable": "errors",
    "VolumeMapping": "config.mounts",
    "autoconvert": "buildables.types",
    "executor": "executors.factory",
}

__all__ = [
    "Config",
    "Duration",
    "Executor",
    "Experiment",
    "Failure",
    "Handle",
    "InputError",
    "LaunchError",
    "LocalConfig",
    "LocalExecutor",
    "NotFound",
    "Observation",
    "Partial",
    "Plan",
    "Problem",
    "Recipe",
    "RecipeFile",
    "RecordError",
    "SchedulerError",
    "SchedulerRefused",
    "Script",
    "SlurmConfig",
    "SlurmExecutor",
    "State",
    "Task",
    "TaskStatus",
    "Unreachable",
    "VolumeMapping",
    "__version__",
    "autoconvert",
    "executor",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'nemo_launch' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"nemo_launch.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
