"""The executor for this machine: writes the job files, hands the tasks to a supervisor, tells what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_launch.executors.configured import Configured
from nemo_launch.transport import LocalTransport

if TYPE_CHECKING:
    from nemo_launch.config.executor import LocalConfig
    from nemo_launch.errors import Problem
    from nemo_launch.executors.base import Handle, Job, Ledger, LogSource, Observation, Plan, Recovery
    from nemo_launch.layout import TaskPaths
    from nemo_launch.task import Task
    from nemo_launch.transport import Transport


class LocalExecutor(Configured["LocalConfig"]):
    """Runs on this machine. ``LocalExecutor(LocalConfig(...))``, or the fields of LocalConfig as keywords.

    ``record``: instead of a config its fields as they were recorded; see ``executors.configured``.
    """

    kind = "local"

    def __init__(
        self, config: LocalConfig | None = None, *, record: Mapping[str, Any] | None = None, **fields: object
    ) -> None:
        if record is None:
            from nemo_launch.config.executor import LocalConfig
            from nemo_launch.config.structure import given

            config = given(LocalConfig, config, fields, "LocalExecutor")
        super().__init__(config, record)
        self.transport: Transport = LocalTransport()

    @property
    def title(self) -> str:
        """As the status block shows it."""
        return f"LocalExecutor on @{self.transport.name}"

    def __repr__(self) -> str:
        return f"LocalExecutor({self.config!r})"

    def check(self, tasks: Sequence[Task], title: str = "") -> list[Problem]:
        """See ``Executor.check``."""
        from nemo_launch.executors.local import preflight

        return preflight.check(self.config, tasks, self.given_secrets)

    def plan(self, task: Task, paths: TaskPaths) -> Plan:
        """See ``Executor.plan``."""
        from nemo_launch.executors.local.planning import plan

        return plan(self, task, paths)

    def submit(self, plans: Sequence[Plan], ledger: Ledger) -> None:
        """See ``Executor.submit``."""
        from nemo_launch.executors.local.submitting import submit

        submit(self, plans, ledger)

    def recover(self, jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
        """See ``Executor.recover``. The tag is the claim, which the supervisor makes before it starts anything."""
        from nemo_launch.executors.local import polling

        return polling.recover(self.transport, jobs)

    def poll(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.poll``."""
        from nemo_launch.executors.local import polling

        return polling.poll(self.transport, jobs)

    def cancel(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.cancel``: TERM, after the grace KILL, until no process of theirs is left."""
        return self._end(jobs, "cancel", self.config.grace.seconds)

    def kill(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """End them at once: KILL."""
        return self._end(jobs, "kill", 0.0)

    def terminate(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """Send TERM, so that they save and end; nothing is killed and nothing waited for."""
        return self._end(jobs, "terminate", None)

    def _end(self, jobs: Sequence[Job], order: str, grace: float | None) -> dict[str, Observation]:
        from nemo_launch.executors.local import ending

        return ending.end(self.transport, jobs, order, grace)

    def log_sources(self, job: Job) -> list[LogSource]:
        """See ``Executor.log_sources``."""
        from nemo_launch.executors.job_logs import log_sources

        return log_sources(self.transport, job)
