"""Submitting plans: each after those that it depends on, its secrets where nobody else reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nemo_launch import environment, runner
from nemo_launch.errors import SchedulerRefused
from nemo_launch.executors.base import Handle, Job, Ledger, Plan, State
from nemo_launch.executors.slurm import submit
from nemo_launch.layout import TaskPaths

if TYPE_CHECKING:
    from nemo_launch.executors.slurm.executor import SlurmExecutor


class Submitting:
    """One ``Executor.submit``."""

    def __init__(self, executor: SlurmExecutor, ledger: Ledger) -> None:
        self._executor = executor
        self._ledger = ledger
        self._fresh: dict[str, Handle] = {}

    def all(self, plans: Sequence[Plan]) -> None:
        """See ``Executor.submit``."""
        submit.submit_all(plans, self._prepare, self._send, self._ledger)

    def _prepare(self, plan: Plan) -> Mapping[str, str]:
        """Write what the job needs and the intent; the environment of its sbatch."""
        executor = self._executor
        secrets = environment.secret_values(plan.secrets, executor.secrets_of(plan.task), os.environ)
        in_file = plan.secrets and executor.site.accounting_shows_environment
        submit.write_files(executor.transport, plan, runner.secrets_file(secrets) if in_file else None)
        self._ledger.intend(plan)
        return plan.env if in_file else {**plan.env, **secrets}

    def _send(self, plan: Plan, env: Mapping[str, str], meanwhile: Callable[[], None]) -> None:
        after = self._predecessors(plan)
        argv = submit.command(plan.paths.script, after, self._executor.config.dependency)
        handle = submit.submit(self._executor.transport, plan, env, argv, self._ledger, meanwhile)
        self._fresh[plan.task.name] = handle

    def _predecessors(self, plan: Plan) -> list[Handle]:
        """Ids to wait for. One that has succeeded already may be forgotten by the scheduler, and is left out.

        Raises:
            SchedulerRefused: one did not succeed, or was never submitted.
        """
        handles = []
        for name in plan.task.after:
            handle = self._fresh.get(name)
            if handle is None:
                handle = self._ledger.handle(name)
                if handle is None:
                    raise SchedulerRefused(
                        f"{plan.task.name} was not submitted: {name}, which it depends on, has no job id."
                    )
                state = self._state_of(plan, name, handle)
                if state.final and state is not State.SUCCEEDED:
                    raise SchedulerRefused(
                        f"{plan.task.name} was not submitted: {name}, which it depends on, has {state}."
                    )
                if state.final:
                    continue
            handles.append(handle)
        return handles

    def _state_of(self, plan: Plan, name: str, handle: Handle) -> State:
        """Of another task of the same experiment: its folder lies beside this one's."""
        paths = TaskPaths(*(os.path.join(os.path.dirname(p), name) for p in (plan.paths.dir, plan.paths.job_dir)))
        job = Job(name, paths, handle)
        return self._executor.poll([job])[job.key].state
