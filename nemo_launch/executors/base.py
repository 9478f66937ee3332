"""The executor's contract: plan, submit, poll, cancel, logs. Third parties can write one in a package of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from nemo_launch.config.executor import ExecutorConfig
    from nemo_launch.errors import Problem
    from nemo_launch.layout import TaskPaths
    from nemo_launch.task import Task
    from nemo_launch.transport import Transport


#: What a field without a value holds; nobody can put anything into it.
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class State(str, Enum):
    """NeMo-Run's words. UNKNOWN is never finished and never failed."""

    UNSUBMITTED = "UNSUBMITTED"
    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"

    def __str__(self) -> str:
        return self.value

    @property
    def final(self) -> bool:
        """Nothing more will happen."""
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class Handle(NamedTuple):
    """How the scheduler knows a job."""

    job_id: str
    cluster: str | None = None
    array_index: int | None = None
    het_part: int | None = None
    attempt: int = 0

    def __str__(self) -> str:
        suffix = f"_{self.array_index}" if self.array_index is not None else ""
        return self.job_id + suffix + (f"+{self.het_part}" if self.het_part is not None else "")

    @property
    def own_id(self) -> str:
        """What the job calls itself in its records: all parts of a heterogeneous job are one job."""
        return str(self._replace(het_part=None))

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "job_id": self.job_id,
            "cluster": self.cluster,
            "array_index": self.array_index,
            "het_part": self.het_part,
            "attempt": self.attempt,
        }

    @classmethod
    def load(cls, value: Mapping[str, Any]) -> Handle:
        """From JSON."""
        return cls(**{k: value[k] for k in ("job_id", "cluster", "array_index", "het_part", "attempt") if k in value})


class Job(NamedTuple):
    """A task that was, or may have been, submitted: what the record says of it."""

    name: str
    paths: TaskPaths
    handle: Handle | None = None
    intended: float | None = None
    """When the intent was recorded (unix seconds); None: never about to be submitted."""
    submitted: float | None = None
    after: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Unique over all experiments: the task's directory."""
        return self.paths.dir


class Failure(NamedTuple):
    """The rank that failed first, as the runner on the node recorded it."""

    rank: int
    node: str
    exit_code: int | None = None
    signal: str | None = None
    exception: str = ""
    """Last line of the traceback: ``KeyError: 'x'``."""
    traceback: str = ""
    followed: int = 0
    """How many other ranks failed or were ended after it."""

    def __str__(self) -> str:
        how = f"signal {self.signal}" if self.signal else f"exit {self.exit_code}{_as_after(self.exit_code)}"
        others = f"; {self.followed} other{'s' * (self.followed != 1)} followed" if self.followed else ""
        what = f", {self.exception}" if self.exception else ""
        return f"rank {self.rank} on {self.node} failed first: {how}{what}{others}"


def _as_after(code: int | None) -> str:
    """What shells mean by 137, which a program may also say by itself."""
    import signal

    try:
        return f" (as after {signal.Signals((code or 0) - 128).name})"
    except ValueError:
        return ""


class Observation(NamedTuple):
    """The truth about one task, as well as it is known now. Times are unix seconds."""

    state: State
    raw: str = ""
    """The scheduler's own word, such as COMPLETED or NODE_FAIL."""
    reason: str = ""
    """In plain words."""
    exit_code: int | None = None
    attempt: int = 0
    nodes: str = ""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    failure: Failure | None = None
    skipped: bool = False
    """Never ran because a predecessor did not succeed (state CANCELLED)."""
    restarting: bool = False
    estimated_start: float | None = None
    """When the scheduler means to start a job that waits; None: it has not said."""
    parts: Mapping[str, Observation] = _NOTHING
    """Each index of an array, or each component of a heterogeneous job, by its id (``13_2``, ``24+1``)."""
    age: float | None = None
    """Seconds since this was last known to be true, when the scheduler did not answer now; None: it is fresh."""
    extra: Mapping[str, Any] = _NOTHING


class Plan(NamedTuple):
    """Everything that would be written and run for one task; making it has no effect."""

    task: Task
    paths: TaskPaths
    script: str
    """Text of the batch script."""
    command: tuple[str, ...]
    """The command that submits or starts it."""
    env: Mapping[str, str]
    """Environment of that command and so of the job, without secrets."""
    secrets: tuple[str, ...] = ()
    files: Mapping[str, bytes] = _NOTHING
    """Further files of the job's folder: relative path -> content."""
    notes: tuple[str, ...] = ()
    """Lines for people: what was left out, defaults of the site that apply, warnings."""


class Recovery(str, Enum):
    """What became of a submission whose answer was never recorded."""

    GONE = "gone"
    """Known not to exist: safe to submit again."""
    IN_FLIGHT = "in flight"
    """Cannot be said yet: something may still be submitting it."""


class Ledger(Protocol):
    """Where an executor records what it is about to do and what it did, at the moment it happens."""

    def intend(self, plan: Plan) -> None:
        """About to submit; on disk when this returns."""

    def submitted(self, plan: Plan, handle: Handle) -> None:
        """The scheduler gave it this id."""

    def withdrawn(self, plan: Plan) -> None:
        """The scheduler was not called after all: the intent is void."""

    def refused(self, plan: Plan, reason: str) -> None:
        """The scheduler said no for certain: the intent is void."""

    def handle(self, name: str) -> Handle | None:
        """Id of a task of the same experiment, for dependencies."""


class LogSource(NamedTuple):
    """One log file, reached through the executor's transport."""

    path: str
    rank: int | None = None
    """None: the job's whole log."""
    node: str | None = None
    attempt: int = 0
    """Of which attempt; 0 is the first."""
    begin: int = 0
    """Where in the file it begins, in bytes: attempts of one job share a log."""


class Executor(Protocol):
    """Where tasks run."""

    kind: str
    """``local``, ``slurm``: the word for ``-e`` and for the record."""
    transport: Transport

    @property
    def config(self) -> ExecutorConfig:
        """What it was built from: the dataclass of its kind."""

    @property
    def job_dir(self) -> str | None:
        """The folder that the nodes see, where one is named; absolute."""

    @property
    def title(self) -> str:
        """As the status block shows it: ``SlurmExecutor on @localhost``."""

    def check(self, tasks: Sequence[Task], title: str = "") -> list[Problem]:
        """What stands against running these tasks here; asks, changes nothing.

        ``title`` is the experiment's: like the tasks' names, folders that the job uses are called so.
        """

    def plan(self, task: Task, paths: TaskPaths) -> Plan:
        """Pure: what would be written and run."""

    def submit(self, plans: Sequence[Plan], ledger: Ledger) -> None:
        """Start all of them, predecessors first. The job's files are written here, the record through the ledger.

        Raises:
            SchedulerError: it stopped at one of them; those before it are recorded and live.
        """

    def recover(self, jobs: Sequence[Job]) -> dict[str, Handle | Recovery]:
        """For jobs with an intent but no id: find them by their tag, one question for all (by ``Job.key``)."""

    def poll(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """The state of all jobs (by ``Job.key``; of any experiments) with as few questions as possible."""

    def cancel(self, jobs: Sequence[Job]) -> dict[str, Observation]:
        """End them for sure; what each one is afterwards (by ``Job.key``)."""

    def log_sources(self, job: Job) -> list[LogSource]:
        """Logs that exist now: the newest attempt's whole log, then those of its ranks; then those of earlier ones."""
