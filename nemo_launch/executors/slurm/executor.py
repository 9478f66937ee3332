"""SlurmExecutor: one sbatch job per task."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nemo_launch import environment, groups, runner
from nemo_launch.config import presets, rules
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.errors import Problem, SchedulerError, SchedulerRefused
from nemo_launch.executors.base import Handle, Job, Ledger, LogSource, Observation, Plan, Recovery, State
from nemo_launch.executors.slurm import commands, containers, render, submit
from nemo_launch.layout import TaskPaths
from nemo_launch.task import Task
from nemo_launch.transport import LocalTransport, Transport


class SlurmExecutor:
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
        self, config: SlurmConfig | None = None, *, transport: Transport | None = None, **fields: object
    ) -> None:
        from nemo_launch.config.structure import given

        config = given(SlurmConfig, config, fields, "SlurmExecutor")
        self.config: SlurmConfig
        self.config, self._values = environment.without_secret_values(config)
        self.transport: Transport = transport or LocalTransport()
        self._shown_environment: bool | None = None
        self._has: frozenset[str] | None = None

    @property
    def title(self) -> str:
        """As the status block shows it."""
        return f"{type(self).__name__} on @{self.transport.name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    def check(self, tasks: Sequence[Task], title: str = "") -> list[Problem]:
        """See ``Executor.check``."""
        from nemo_launch.executors.slurm.check import check

        return [*rules.validate(self.config), *check(self.config, tasks, self.transport, self._values, title)]

    def plan(self, task: Task, paths: TaskPaths) -> Plan:
        """See ``Executor.plan``."""
        if not task.members:
            return self._plan(task, paths)
        config = replace(self.config, **groups.outer(self.config, task))
        made = SlurmExecutor(config, transport=self.transport)._plan(groups.around(task, paths), paths)
        return groups.plan(task, paths, made, lambda executor, one, inside: executor._plan(one, inside, member=True))

    def _plan(self, task: Task, paths: TaskPaths, member: bool = False) -> Plan:
        config, environ = self.config, os.environ
        names = self._secret_names(task, environ)
        needed = runner.files(task.language, render.launcher(config, task), bool(config.container_image))
        secrets_file = paths.secrets if names and not member and self._accounting_shows_environment() else ""
        # An image has its own PATH and libraries: there only what was asked for by name.
        asked = {*config.env_vars, *task.env, *(() if config.container_image else environment.TOOLS)}
        env, apart = environment.apart(commands.submission(config, task, environ), environ, asked)
        has = self._container_options()
        apart = (*apart, *containers.words(config, task, has))
        return Plan(
            task=task,
            paths=paths,
            script=render.script(config, task, paths, names, secrets_file, apart, has, member),
            command=submit.command(paths.script, (), config.dependency),
            env=env,
            secrets=names,
            files={f"runner/{name}": data for name, data in needed.items()},
            notes=(*self._notes(task, environ, secrets_file), *containers.notes(config, task, paths, has)),
        )

    def submit(self, plans: Sequence[Plan], ledger: Ledger) -> None:
        """See ``Executor.submit``."""
        fresh: dict[str, Handle] = {}

        def send(plan: Plan, env: Mapping[str, str], meanwhile: Callable[[], None]) -> None:
            after = self._predecessors(plan, fresh, ledger)
            argv = submit.command(plan.paths.script, after, self.config.dependency)
            fresh[plan.task.name] = submit.submit(self.transport, plan, env, argv, ledger, meanwhile)

        submit.submit_all(plans, lambda plan: self._prepare(plan, ledger), send, ledger)

    def _prepare(self, plan: Plan, ledger: Ledger) -> Mapping[str, str]:
        """Write what the job needs and the intent; the environment of its sbatch."""
        secrets = environment.secret_values(plan.secrets, self._given(plan.task), os.environ)
        in_file = plan.secrets and self._accounting_shows_environment()
        submit.write_files(self.transport, plan, runner.secrets_file(secrets) if in_file else None)
        ledger.intend(plan)
        return plan.env if in_file else {**plan.env, **secrets}

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
        from nemo_launch.executors.slurm.logs import log_sources

        return log_sources(self.transport, job)

    @property
    def given_secrets(self) -> Mapping[str, str]:
        """Values of secrets that came with the config."""
        return self._values

    # -- inside -------------------------------------------------------------------------------------------------

    def _given(self, task: Task) -> dict[str, str]:
        return {**self._values, **task.secret_values}

    def _secret_names(self, task: Task, environ: Mapping[str, str]) -> tuple[str, ...]:
        return environment.secret_names(self.config, task.secrets, self._given(task), environ)

    def _accounting_shows_environment(self) -> bool:
        """Whether sacct shows everybody's environment here (AccountingStoreFlags=job_env). No answer counts as yes."""
        if self._shown_environment is None:
            try:
                argv = ["scontrol", "show", "config"]
                said = self.transport.run(argv, env=commands.query(), timeout=commands.PATIENCE).stdout
            except SchedulerError:
                said = ""
            flags = [line for line in said.splitlines() if line.startswith("AccountingStoreFlags")]
            self._shown_environment = not flags or "job_env" in flags[0]
        return self._shown_environment

    def _container_options(self) -> frozenset[str]:
        """What srun can do here, if it matters; where nobody can tell, ``check`` has said so."""
        if self._has is None:
            try:
                has = containers.supported(self.transport) if self.config.container_image else frozenset()
            except SchedulerError:
                has = frozenset()
            self._has = has or containers.OPTIONS
        return self._has

    def _notes(self, task: Task, environ: Mapping[str, str], secrets_file: str) -> list[str]:
        defaults = commands.site_defaults(self.config, environ)
        notes = [f"{name}={value} of your environment applies" for name, value in defaults.items()]
        notes += rules.without_effect(self.config)
        notes += _of_preset(self.config)
        if image := self.config.container_image:
            seen = [*([image] if image.startswith("/") else []), *(m.source for m in self.config.container_mounts)]
            absent = [path for path in dict.fromkeys(seen) if not self.transport.exists(path)]
            notes += [f"{path} is not on this machine; the nodes must see it" for path in absent]
        if task.after:
            notes.append(f"sbatch also gets --dependency=afterok: with the job ids of {', '.join(task.after)}")
        if secrets_file:
            notes.append("accounting shows environments here, so secrets travel in a file that only you can read")
        return notes

    def _predecessors(self, plan: Plan, fresh: Mapping[str, Handle], ledger: Ledger) -> list[Handle]:
        """Ids to wait for. One that has succeeded already may be forgotten by the scheduler, and is left out.

        Raises:
            SchedulerRefused: one did not succeed, or was never submitted.
        """
        handles = []
        for name in plan.task.after:
            handle = fresh.get(name)
            if handle is None:
                handle = ledger.handle(name)
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
        return self.poll([job])[job.key].state


def _of_preset(config: SlurmConfig) -> list[str]:
    """Which values are the preset's, in a line."""
    preset = presets.described(config)
    if preset is None:
        return []
    values = {
        name: str(value).lower() if value is True or value is False else value
        for name, value in preset["fields"].items()
    }
    given = ", ".join(f"{name}={value}" for name, value in values.items()) or "nothing"
    network = f"; the network {' or '.join(preset['fabrics'])}, where a node has it" if preset["fabrics"] else ""
    return [f"from the preset {preset['name']} ({preset['file']}): {given}{network}"]
