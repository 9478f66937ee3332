"""SlurmExecutor: one sbatch job per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nemo_launch.executors.configured import Configured
from nemo_launch.transport import LocalTransport

if TYPE_CHECKING:
    from nemo_launch.config.executor import SlurmConfig
    from nemo_launch.errors import Problem
    from nemo_launch.executors.base import Handle, Job, Ledger, LogSource, Observation, Plan, Recovery
    from nemo_launch.executors.slurm.facts import Facts
    from nemo_launch.layout import TaskPaths
    from nemo_launch.task import Task
    from nemo_launch.transport import Transport


class SlurmExecutor(Configured["SlurmConfig"]):
    """Runs each task as a Slurm job.

    Args:
        config: what to ask for; or give its fields as keywords: ``SlurmExecutor(account="a", nodes=2)``.
        transport: where Slurm's commands run and the jobs' files lie; default: this machine.
        fields: the fields of ``SlurmConfig``.

    Raises:
        InputError: fields that do not exist or have a wrong value. Which rules a ready ``config`` breaks is told by
            ``check``, together with all other problems of the request.
    """

    kind = "slurm"

    def __init__(
        self,
        config: SlurmConfig | None = None,
        *,
        transport: Transport | None = None,
        record: Mapping[str, Any] | None = None,
        **fields: object,
    ) -> None:
        if record is None:
            from nemo_launch.config.executor import SlurmConfig
            from nemo_launch.config.structure import given

            config = given(SlurmConfig, config, fields, "SlurmExecutor")
        super().__init__(config, record)
        self.transport: Transport = transport or LocalTransport()

    @property
    def title(self) -> str:
        """As the status block shows it."""
        return f"{type(self).__name__} on @{self.transport.name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    @cached_property
    def site(self) -> Facts:
        """What is known of the cluster; asked for once."""
        from nemo_launch.executors.slurm.facts import Facts

        return Facts(self.transport)

    def check(self, tasks: Sequence[Task], title: str = "") -> list[Problem]:
        """See ``Executor.check``."""
        from nemo_launch.config import rules
        from nemo_launch.executors.slurm.check import check

        return [*rules.validate(self.config), *check(self.config, tasks, self.transport, self.given_secrets, title)]

    def plan(self, task: Task, paths: TaskPaths) -> Plan:
        """See ``Executor.plan``."""
        from nemo_launch.executors.slurm.planning import plan

        return plan(self, task, paths)

    def submit(self, plans: Sequence[Plan], ledger: Ledger) -> None:
        """See ``Executor.submit``."""
        from nemo_launch.executors.slurm.submitting import Submitting

        Submitting(self, ledger).all(plans)

    def recover(self, jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
        """See ``Executor.recover``."""
        from nemo_launch.executors.slurm.recovery import recover

        return recover(self.transport, jobs)

    def poll(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.poll``."""
        from nemo_launch.executors.slurm.poll import poll

        return poll(self.transport, jobs)

    def cancel(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.cancel``."""
        from nemo_launch.executors.slurm.cancel import cancel

        return cancel(self.transport, jobs)

    def log_sources(self, job: Job) -> list[LogSource]:
        """See ``Executor.log_sources``."""
        from nemo_launch.executors.job_logs import log_sources

        return log_sources(self.transport, job)
