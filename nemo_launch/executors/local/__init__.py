"""Runs tasks on this machine, under a small detached supervisor, which imports this package and nothing heavy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_launch.executors.local.executor import LocalExecutor

__all__ = ["LocalExecutor"]


def __getattr__(name: str) -> Any:
    if name != "LocalExecutor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nemo_launch.executors.local.executor import LocalExecutor

    return LocalExecutor
