"""The executor for this machine: writes the job files, hands the tasks to a supervisor, tells what became of them."""

from __future__ import annotations

import glob
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_launch import environment, identity, records, runner
from nemo_launch.config.executor import LocalConfig
from nemo_launch.errors import InputError, Problem, SchedulerRefused
from nemo_launch.executors.base import Handle, Job, Ledger, LogSource, Observation, Plan, Recovery, State
from nemo_launch.executors.local import ending, preflight, processes, start
from nemo_launch.executors.local.observe import Facts, judge, load
from nemo_launch.executors.outcome import Outcome, read_outcomes
from nemo_launch.records import TaskPaths
from nemo_launch.task import Task
from nemo_launch.transport import LocalTransport, Transport

_MARGIN_SECONDS = 600


class LocalExecutor:
    """Runs on this machine. ``LocalExecutor(LocalConfig(...))``, or the fields of LocalConfig as keywords."""

    kind = "local"

    def __init__(self, config: LocalConfig | None = None, **fields: object) -> None:
        from nemo_launch.config.structure import given

        config = given(LocalConfig, config, fields, "LocalExecutor")
        self.config: LocalConfig
        self.config, self._secret_values = environment.without_secret_values(config)
        self.transport: Transport = LocalTransport()

    @property
    def title(self) -> str:
        """As the status block shows it."""
        return f"LocalExecutor on @{self.transport.name}"

    def __repr__(self) -> str:
        return f"LocalExecutor({self.config!r})"

    def check(self, tasks: Sequence[Task]) -> list[Problem]:
        """See ``Executor.check``."""
        return preflight.check(self.config, tasks, self._secret_values)

    def plan(self, task: Task, paths: TaskPaths) -> Plan:
        """See ``Executor.plan``."""
        config = self.config
        env = environment.job_environment(config, task.env, os.environ)
        values: dict[str, str | int | Sequence[str]] = {
            "nl_scheduler": "local",
            "nl_experiment": os.path.basename(os.path.dirname(paths.dir)),
            "nl_task": task.name,
            "nl_job_dir": paths.job_dir,
            "nl_work_dir": preflight.work_dir(config, task),
            "nl_launcher": preflight.launcher(config, task),
            "nl_language": task.language,
            "nl_program": task.argv,
            "nl_interpreter": task.interpreter,
            "nl_python": config.python or sys.executable,
            "nl_pythonpath": task.pythonpath,
            "nl_ntasks_per_node": config.ntasks_per_node,
            "nl_signal": config.signal or "",
        }
        return Plan(
            task=task,
            paths=paths,
            script=runner.batch_script([], values),
            command=("bash", paths.script),
            env={**env, processes.MARKER: paths.job_dir},
            secrets=tuple(dict.fromkeys((*config.secrets, *task.secrets))),
            files={f"runner/{name}": data for name, data in runner.files(task.language).items()},
        )

    def submit(self, plans: Sequence[Plan], ledger: Ledger) -> None:
        """See ``Executor.submit``."""
        if not plans:
            return
        experiment = os.path.dirname(plans[0].paths.dir)
        names = {plan.task.name for plan in plans}
        for plan in plans:
            for other in plan.task.after:
                if other not in names and ledger.handle(other) is None:
                    where = f"{plan.task.name!r}: after"
                    raise InputError(Problem(f"{other!r} was not submitted", where, "Add it to the same launch."))
        for plan in plans:
            for name, data in plan.files.items():
                self.transport.write(os.path.join(plan.paths.job_dir, name), data)
            self.transport.write(plan.paths.script, plan.script.encode("utf-8", "surrogateescape"), 0o755)
        request = {"tasks": [self._request(plan) for plan in plans], "max_parallel": self.config.max_parallel}
        for plan in plans:
            ledger.intend(plan)
        try:
            job_id = start.supervisor(experiment, request)
        except SchedulerRefused as error:
            for plan in plans:
                ledger.refused(plan, str(error))
            raise
        for plan in plans:
            ledger.submitted(plan, Handle(job_id))

    def recover(self, jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
        """See ``Executor.recover``. The tag is the claim, which the supervisor makes before it starts anything."""
        answers: dict[str, Handle | Recovery] = {}
        for job in jobs:
            maybe = _may_still_start(job)  # before the claim is looked for: it may be made meanwhile
            owner = self.transport.readlinks([job.paths.claim]).get(job.paths.claim, "")
            if owner.startswith("job-"):
                answers[job.key] = Handle(owner.removeprefix("job-"))
            else:
                answers[job.key] = Recovery.IN_FLIGHT if maybe else Recovery.GONE
        return answers

    def poll(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.poll``."""
        seen: dict[str, Observation] = {}
        unsure: list[Job] = []
        facts = self._facts(jobs)
        for job in jobs:
            if job.handle is None:
                seen[job.key] = Observation(State.UNSUBMITTED, reason="not submitted yet")
            elif (found := judge(facts[job.key], sure=False)) is not None:
                seen[job.key] = found
            else:
                unsure.append(job)
        # Its supervisor is dead. What that wrote last is on disk by now, so a second reading is final.
        facts |= self._facts(unsure)
        for job in unsure:
            if (found := judge(facts[job.key], sure=True)) is not None:
                seen[job.key] = found
        return {job.key: _waits_for(job, jobs, seen) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """See ``Executor.cancel``: TERM, after the grace KILL, until no process of theirs is left."""
        return self._end(jobs, "cancel", self.config.grace.seconds)

    def kill(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """End them at once: KILL."""
        return self._end(jobs, "kill", 0.0)

    def terminate(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """Send TERM, so that they save and end; nothing is killed and nothing waited for."""
        return self._end(jobs, "terminate", None)

    def log_sources(self, job: Job) -> list[LogSource]:
        """See ``Executor.log_sources``."""
        if job.handle is None:
            return []
        log = job.paths.log(job.handle.job_id)
        sources = [LogSource(log)] if self.transport.exists(log) else []
        folder = job.paths.ranks(job.handle.job_id, 0)
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        ranks = sorted(int(found[1]) for name in names if (found := re.fullmatch(r"rank-([0-9]+)\.log", name)))
        return sources + [LogSource(os.path.join(folder, f"rank-{rank}.log"), rank) for rank in ranks]

    # -- inside -------------------------------------------------------------------------------------------------

    def _request(self, plan: Plan) -> dict[str, Any]:
        """One task for the supervisor. It holds values of secrets: it may go through a pipe and nowhere else."""
        config = self.config
        given = {**self._secret_values, **plan.task.secret_values}
        limit = config.time.seconds if config.time else None
        margin = None
        if limit is not None:
            margin = config.margin.seconds if config.margin else min(_MARGIN_SECONDS, limit / 5)
        return {
            "name": plan.task.name,
            "dir": plan.paths.job_dir,
            "command": list(plan.command),
            "env": {**plan.env, **environment.secret_values(plan.secrets, given, os.environ)},
            "cwd": preflight.work_dir(config, plan.task),
            "after": list(plan.task.after),
            "grace": config.grace.seconds,
            "time": limit,
            "margin": margin,
            "signal": processes.signal_number(config.signal) if config.signal else None,
        }

    def _facts(self, jobs: Sequence[Job]) -> dict[str, Facts]:
        """Everything that is written about them, the states first: what is decided from them cannot be undone later."""
        known = [job for job in jobs if job.handle is not None]
        if not known:
            return {}
        files = self.transport.read_matching(
            dict.fromkeys(glob.escape(path) for job in known for path in (job.paths.state, _supervisor(job)))
        )
        outcomes = read_outcomes(self.transport, known)
        return {
            job.key: Facts(
                job,
                load(files.get(job.paths.state)),
                load(files.get(_supervisor(job))),
                self.transport.exists(job.paths.cancelled),
                outcomes.get(job.key) or Outcome(),
            )
            for job in known
        }

    def _end(self, jobs: Sequence[Job], how: str, grace: float | None) -> dict[str, Observation]:
        recovered = self.recover([job for job in jobs if job.handle is None and job.intended is not None])
        jobs = [
            replace(job, handle=found) if isinstance(found := recovered.get(job.key), Handle) else job for job in jobs
        ]
        seen = self.poll(jobs)
        for job in jobs:
            if recovered.get(job.key) is Recovery.IN_FLIGHT:  # should it come to life, it finds the marker
                ending.mark(job, how)
        live = [job for job in jobs if job.handle is not None and not seen[job.key].state.final]
        ending.ask(self._facts(live).values(), how)
        deadline, pause = time.monotonic() + (grace or 0.0) + ending.SLACK_SECONDS, 0.02
        while live:
            ending.end_directly(ending.orphaned(list(self._facts(live).values())), how, grace or 0.0)
            seen |= self.poll(live)
            live = [job for job in live if seen[job.key].state not in ending.OVER]
            if grace is None or time.monotonic() > deadline:
                break
            time.sleep(pause if live else 0)
            pause = min(2 * pause, 0.5)
        return seen


def _supervisor(job: Job) -> str:
    return job.paths.supervisor(job.handle.job_id if job.handle else "")


def _may_still_start(job: Job) -> bool:
    """Whether the launcher that recorded the intent, or a supervisor without tasks, is still at it."""
    intent = records.read_json(job.paths.intent) or {}
    folder = os.path.dirname(job.paths.dir)
    try:
        names = [name for name in os.listdir(folder) if re.fullmatch(r"supervisor-[0-9]+\.json", name)]
    except OSError:
        names = []
    starters = [records.read_json(os.path.join(folder, name)) or {} for name in names]
    if intent.get("pid") != os.getpid():
        starters.append(intent)
    return any(identity.alive(starter) is not False for starter in starters if "pid" in starter)


def _waits_for(job: Job, jobs: Sequence[Job], seen: Mapping[str, Observation]) -> Observation:
    """A pending task's reason, which lies in the others."""
    mine = seen[job.key]
    if mine.state is not State.PENDING:
        return mine
    home = os.path.dirname(job.paths.dir)
    near = {other.name: seen[other.key].state for other in jobs if os.path.dirname(other.paths.dir) == home}
    before = [name for name in job.after if near.get(name) is not State.SUCCEEDED]
    return replace(mine, reason=f"waits for {', '.join(before)}" if before else "waits for its turn (max_parallel)")
