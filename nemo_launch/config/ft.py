"""``ft_launcher`` of NVIDIA's resiliency extension: restarts of ranks inside a job. Slurm alone.

The words are its own (``ft_launcher --help`` of nvidia-resiliency-ext).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nemo_launch.config.nsys import NsysOptions
from nemo_launch.errors import Problem

#: Why another executor does not take ``launcher: ft``.
ELSEWHERE = (
    "fault tolerance (ft_launcher) is a feature of Slurm jobs alone: it starts ranks again inside an allocation. "
    "Use -e slurm (executor: slurm), or another launcher"
)


@dataclass(frozen=True, kw_only=True)
class FtOptions:
    """What ``launcher: ft`` asks of ft_launcher."""

    ft_max_restarts: int = 3
    """How often all ranks are started again inside the job when one fails or hangs (``--max-restarts``). What fails
    once more fails the job, which ``resume_on`` may then start again."""
    ft_initial_rank_heartbeat_timeout: float | None = None
    """Seconds until the first heartbeat of a rank, after which it counts as hanging; default: ft_launcher's own."""
    ft_rank_heartbeat_timeout: float | None = None
    """Seconds between two heartbeats, after which a rank counts as hanging; default: ft_launcher's own."""
    ft_restart_policy: Literal["any-failed", "min-healthy"] | None = None
    """When all ranks are started again (``--ft-restart-policy``); default: ft_launcher's own, any-failed."""
    ft_args: tuple[str, ...] = ()
    """Further options for ft_launcher, each as ``--name=value``: ``--ft-cfg-path=FILE``, ``--ft-log-level=WARNING``."""


#: Option of ft_launcher -> what says it.
_SAID = {
    "max-restarts": "ft_max_restarts",
    "ft-initial-rank-heartbeat-timeout": "ft_initial_rank_heartbeat_timeout",
    "ft-param-initial-rank-heartbeat-timeout": "ft_initial_rank_heartbeat_timeout",
    "ft-rank-heartbeat-timeout": "ft_rank_heartbeat_timeout",
    "ft-param-rank-heartbeat-timeout": "ft_rank_heartbeat_timeout",
    "ft-restart-policy": "ft_restart_policy",
    "restart-policy": "ft_restart_policy",
    "nnodes": "nodes",
    "nproc-per-node": "ntasks_per_node",
    "master-port": "master_port",
}
#: What the launcher decides: how the ranks meet and what they run.
_OWN = {
    "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "standalone", "node-rank", "master-addr", "local-addr",
    "module", "no-python", "run-path", "redirects", "tee", "help",
}  # fmt: skip
FIELDS = tuple(FtOptions.__dataclass_fields__)


def problems(config: FtOptions) -> Iterator[Problem]:
    """Rules of these fields."""
    if config.ft_max_restarts < 0:
        yield Problem(f"{config.ft_max_restarts} is less than 0", "ft_max_restarts")
    for name in ("ft_initial_rank_heartbeat_timeout", "ft_rank_heartbeat_timeout"):
        seconds = getattr(config, name)
        if seconds is not None and not 0 < seconds < 1e9:
            yield Problem(f"{seconds:g} is not a number of seconds above 0", name, "Leave it out for the default.")
    for option in config.ft_args:
        match = re.match(r"--([\w-]+)(=|$)", option, re.ASCII)
        name = match[1].replace("_", "-") if match else ""
        if not match:
            fix = "Write each option as one entry, as in --ft-log-level=WARNING."
            yield Problem(f"{option!r} is not an option of ft_launcher", "ft_args", fix)
        elif name in _SAID:
            yield Problem(f"{option!r} says again what a field says", "ft_args", f"Use {_SAID[name]} instead.")
        elif name in _OWN:
            yield Problem(f"{option!r} cannot be used: the launcher sets it", "ft_args", "Leave it out.")
    if chosen(config) and isinstance(config, NsysOptions) and config.nsys_enabled:
        what = "nsys and ft_launcher exclude each other: it ends and starts again the ranks that nsys watches"
        yield Problem(what, "nsys_enabled", "Profile with launcher torchrun.")


def without_effect(config: FtOptions) -> list[str]:
    """A line for each value that will do nothing."""
    if chosen(config):
        return []
    default = FtOptions()
    given = [name for name in FIELDS if getattr(config, name) != getattr(default, name)]
    return [f"{name} has no effect without launcher ft" for name in given]


def chosen(config: object) -> bool:
    """Whether ft_launcher starts the ranks."""
    return getattr(config, "launcher", None) == "ft"


def words(config: FtOptions) -> tuple[str, ...]:
    """Options of ft_launcher, without those about where the ranks are and meet."""
    if not chosen(config):
        return ()
    given = {
        "--max-restarts": config.ft_max_restarts,
        "--ft-initial-rank-heartbeat-timeout": config.ft_initial_rank_heartbeat_timeout,
        "--ft-rank-heartbeat-timeout": config.ft_rank_heartbeat_timeout,
        "--ft-restart-policy": config.ft_restart_policy,
    }
    return (*(f"{name}={value}" for name, value in given.items() if value is not None), *config.ft_args)
