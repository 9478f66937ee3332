"""What is on disk: every path of an experiment. This is the only place that knows them.

Layout (the first three levels are NeMo-Run's)::

    <home>/experiments/<title>/<title>_<unix seconds>/   ExperimentPaths
        experiment.json   launcher-<n>.json   launched   supervisor-<pid>.json   supervisor.log (local)
        <task>/                                          TaskPaths: "Local Directory"
            task.json intent.json handle.json            written by the launcher, as are
            refused.json                                 … a no of the scheduler
            state.json                                   written by the local supervisor
            job.sh runner/ claim cancelled checkpoint-requested <job>.log
            seen.json finding.json                       what the scheduler said last; what a failed attempt's log shows
            restart-<job>-<restart>.json follows-<job>.json
            started-<job>-<restart>.json exit-<job>-<restart>.json ranks-<job>-<restart>/
    <home>/snapshots/<digest>/
"""

from __future__ import annotations

import os
from typing import NamedTuple

from nemo_launch import globs, here
from nemo_launch.errors import InputError, Problem


class TaskPaths(NamedTuple):
    """Files of one task. ``dir`` is where the launcher keeps its record, ``job_dir`` what the nodes see."""

    dir: str
    job_dir: str

    # the launcher's own files, always on this machine
    @property
    def task(self) -> str:
        """What was asked."""
        return f"{self.dir}/task.json"

    @property
    def intent(self) -> str:
        """Written before the scheduler is called."""
        return f"{self.dir}/intent.json"

    @property
    def handle(self) -> str:
        """The scheduler's id, written right after it answered."""
        return f"{self.dir}/handle.json"

    @property
    def refused(self) -> str:
        """The scheduler's last no, in its own words."""
        return f"{self.dir}/refused.json"

    @property
    def state(self) -> str:
        """Local only: what the supervisor knows of the task."""
        return f"{self.dir}/state.json"

    @property
    def finding(self) -> str:
        """What the log of a failed attempt shows (see ``signatures``)."""
        return f"{self.dir}/finding.json"

    def patterns(self) -> TaskPaths:
        """The same paths as glob patterns, in which only ``*`` in place of an id stands for anything."""
        return TaskPaths(globs.escaped(self.dir), globs.escaped(self.job_dir))

    def supervisor(self, job_id: str = "*") -> str:
        """Local only: identity of the supervisor with this pid; it lies in the experiment's directory."""
        return os.path.join(os.path.dirname(self.dir), f"supervisor-{job_id}.json")

    @property
    def supervisor_log(self) -> str:
        """Local only: what the experiment's supervisors complained about."""
        return os.path.join(os.path.dirname(self.dir), "supervisor.log")

    # the job's files, reached through the executor's transport
    @property
    def script(self) -> str:
        """The batch script; its unique path is the job's tag at the scheduler."""
        return f"{self.job_dir}/job.sh"

    @property
    def runner(self) -> str:
        """Folder of the files that run on the node."""
        return f"{self.job_dir}/runner"

    @property
    def claim(self) -> str:
        """Symlink to ``job-<id>``: the job that owns this submission."""
        return f"{self.job_dir}/claim"

    @property
    def secrets(self) -> str:
        """Values of secrets, where the scheduler's accounting would show the environment; folder 0700, file 0600."""
        return os.path.join(self.job_dir, "secrets", "environment")

    @property
    def cancelled(self) -> str:
        """Marker: the user cancelled; never requeue."""
        return f"{self.job_dir}/cancelled"

    @property
    def checkpoint_requested(self) -> str:
        """Marker that recipes poll: save soon, the end is near."""
        return f"{self.job_dir}/checkpoint-requested"

    @property
    def seen(self) -> str:
        """Last state that the scheduler told, for when it no longer answers."""
        return f"{self.job_dir}/seen.json"

    def log(self, job_id: str) -> str:
        """All ranks' lines; ``%j`` is a valid job id here, for the directive."""
        return f"{self.job_dir}/{job_id}.log"

    def exit_record(self, job_id: str = "*", restart: int | str = "*") -> str:
        """One attempt's end, as the batch script wrote it."""
        return f"{self.job_dir}/exit-{job_id}-{restart}.json"

    def started(self, job_id: str = "*", restart: int | str = "*") -> str:
        """One attempt's start, as the batch script wrote it."""
        return f"{self.job_dir}/started-{job_id}-{restart}.json"

    def restart(self, job_id: str = "*", restart: int | str = "*") -> str:
        """That one attempt will be followed by another, and why, as the batch script wrote it."""
        return f"{self.job_dir}/restart-{job_id}-{restart}.json"

    def follows(self, job_id: str = "*") -> str:
        """Which job this one goes on for, where the site does not requeue."""
        return f"{self.job_dir}/follows-{job_id}.json"

    def ranks(self, job_id: str = "*", restart: int | str = "*") -> str:
        """Folder of one attempt's rank logs and failure records."""
        return f"{self.job_dir}/ranks-{job_id}-{restart}"

    def first_failure(self, job_id: str = "*", restart: int | str = "*") -> str:
        """The rank that failed first in one attempt."""
        return os.path.join(self.ranks(job_id, restart), "first-failure.json")


class ExperimentPaths(NamedTuple):
    """Files of one experiment; ``id`` is ``<title>_<unix seconds>``."""

    home: str
    title: str
    id: str

    @classmethod
    def around(cls, task: TaskPaths) -> ExperimentPaths:
        """The experiment that a task belongs to."""
        folder, id = os.path.split(os.path.dirname(task.dir))
        folder, title = os.path.split(folder)
        return cls(os.path.dirname(folder), title, id)

    @property
    def dir(self) -> str:
        """The experiment's directory."""
        return os.path.join(experiments(self.home), self.title, self.id)

    @property
    def record(self) -> str:
        """The experiment's record."""
        return os.path.join(self.dir, "experiment.json")

    @property
    def launched(self) -> str:
        """Marker: the launch ran to its end and the user saw the status block."""
        return os.path.join(self.dir, "launched")

    def launcher(self, number: int) -> str:
        """Identity of the n-th process that launched (0) or adopted (1…) this experiment."""
        return os.path.join(self.dir, f"launcher-{number}.json")

    def task(self, name: str, job_dir: str | None = None) -> TaskPaths:
        """Paths of one task; ``job_dir`` is a folder that the nodes see instead of the home."""
        folder = os.path.join(self.dir, name)
        return TaskPaths(folder, os.path.join(job_dir, self.title, self.id, name) if job_dir else folder)


def home() -> str:
    """``$NEMORUN_HOME``, else ``~/.nemo_run``; absolute."""
    value = os.environ.get("NEMORUN_HOME") or os.path.join("~", ".nemo_run")
    path = here.absolute(value)
    if "\n" in path:
        raise InputError(Problem(f"{path!r} has a newline in it", "NEMORUN_HOME", "Choose another directory."))
    return path


def experiments(base: str) -> str:
    """Folder of the experiments under a home."""
    return os.path.join(base, "experiments")


def snapshots(base: str) -> str:
    """Folder of the code snapshots under a home or a job_dir."""
    return os.path.join(base, "snapshots")
