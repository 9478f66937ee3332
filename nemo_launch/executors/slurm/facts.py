"""What has to be known of a cluster before a job is written: each is asked for once, and only where it matters."""

from __future__ import annotations

from functools import cached_property

from nemo_launch.config.executor import SlurmConfig
from nemo_launch.errors import SchedulerError
from nemo_launch.executors.slurm import commands, containers
from nemo_launch.transport import Transport


class Facts:
    """Of the cluster that a transport reaches."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @cached_property
    def accounting_shows_environment(self) -> bool:
        """Whether sacct shows everybody's environment here (AccountingStoreFlags=job_env). No answer counts as yes."""
        try:
            argv = ["scontrol", "show", "config"]
            said = self._transport.run(argv, env=commands.query(), timeout=commands.PATIENCE).stdout
        except SchedulerError:
            said = ""
        flags = [line for line in said.splitlines() if line.startswith("AccountingStoreFlags")]
        return not flags or "job_env" in flags[0]

    def container_options(self, config: SlurmConfig) -> frozenset[str]:
        """What srun can do here, if it matters; where nobody can tell, ``check`` has said so."""
        return self._container_options if config.container_image else containers.OPTIONS

    @cached_property
    def _container_options(self) -> frozenset[str]:
        try:
            return containers.supported(self._transport) or containers.OPTIONS
        except SchedulerError:
            return containers.OPTIONS
