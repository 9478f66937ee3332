"""The config dataclasses: every field of an executor, its meaning and its default."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from nemo_launch.config.durations import Duration
from nemo_launch.config.ft import FtOptions
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.nsys import NsysOptions
from nemo_launch.config.resume import MAX_RESTARTS, ResumeOn
from nemo_launch.errors import Problem

#: The checkpoint request comes this many seconds before the limit, but never earlier than a fifth of it.
_MARGIN = 600


class Default(int):
    """A default that can be told from the same number given by the user, for whom no preset takes its place."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig:
    """What all executors share. Unset (None) means the documented default."""

    work_dir: str | None = None
    """Directory that the processes start in, absolute; default: where the launcher was called."""
    ntasks_per_node: int = 1
    """Processes (ranks) on each node."""
    python: str | None = None
    """Interpreter for Python recipes where the task runs; default: the launcher's own."""
    env_vars: dict[str, str] = field(default_factory=dict, repr=False)
    """Environment of the processes; wins over everything that the launcher sets itself."""
    secrets: tuple[str, ...] = ()
    """Names of variables whose values travel from the launcher's environment and are written nowhere."""
    inherit_env: bool = False
    """Pass the launcher's whole environment, without secrets, instead of the base list (HOME, USER, LANG, PATH …)."""
    passthrough: tuple[str, ...] = ()
    """More names to pass from the launcher's environment when they are set there; secret ones travel as ``secrets``."""
    snapshot: bool = True
    """Run from a read-only copy of the code as it was at submission; false: from the work dir itself."""
    include: tuple[str, ...] = ()
    """Paths (relative to the work dir) that go into the snapshot although a rule leaves them out."""
    log_dir: str | None = None
    """Exported as NEMO_LAUNCH_LOG_DIR; never part of a snapshot."""
    cache_dir: str | None = None
    """Holds HF_HOME, TORCH_HOME and the megatron caches; never part of a snapshot."""
    data_dir: str | None = None
    """Exported as NEMO_LAUNCH_DATA_DIR; never part of a snapshot."""
    time: Duration | None = None
    """Time limit. Local: the supervisor ends the task then."""
    margin: Duration | None = None
    """How long before ``time`` the checkpoint request comes; default 10 minutes, at most a fifth of ``time``."""
    signal: str | None = None
    """Also send this signal (such as USR1) to the processes then; default: only the checkpoint-requested file,
    because a process without a handler dies of it."""
    resume_on: ResumeOn = ResumeOn()
    """Causes after which the job is started again: ``timeout``, ``error`` or ``error:1,7`` (only these exit codes), on
    Slurm also ``preempted`` and ``node_fail``, with commas between them; default: never."""
    max_restarts: int = MAX_RESTARTS
    """How often at most, whatever the causes; a restart by hand (``scontrol requeue``) is always let through."""

    def margin_seconds(self) -> int | None:
        """Seconds between the checkpoint request and the time limit; None: there is no limit."""
        if self.time is None:
            return None
        return max(1, self.margin.seconds if self.margin else min(_MARGIN, self.time.seconds // 5))


@dataclass(frozen=True, kw_only=True)
class LocalConfig(NsysOptions, ExecutorConfig):
    """Runs on this machine, under a small detached supervisor."""

    launcher: Literal["torchrun", "none"] | None = None
    """How the processes start; default: torchrun for Python recipes, none for others."""
    max_parallel: int | None = None
    """At most this many tasks of the same executor at once; default: no limit."""
    grace: Duration = Duration(30)
    """Time between TERM and KILL when a task is cancelled or reaches its limit (on Slurm the site's KillWait). Ctrl-C
    sends TERM and kills nothing before the second Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class SlurmConfig(FtOptions, NsysOptions, ExecutorConfig):
    """One sbatch job per task. Names and meanings are sbatch's (see its manual) unless said otherwise."""

    launcher: Literal["torchrun", "ft", "srun", "none"] | None = None
    """torchrun: one agent a node (default for Python recipes); ft: ft_launcher in its place, which starts ranks that
    fail or hang again inside the job; srun: ranks started by srun (default for others with more than one task); none:
    the command runs once, on the first node."""
    job_name: str | None = None
    """Name of the job at the scheduler; default: the task's name."""
    account: str | None = None
    partition: str | None = None
    nodes: int = 1
    slurm_type: str | None = None
    """GPU cluster preset, such as ``hcc-a3m``: values for what is not given, and on several nodes the network."""
    fabric: str | None = None
    """Network of the preset's that a job of several nodes uses; default: the first that its first node has."""
    ntasks_per_node: int = Default(1)
    """Processes (ranks) on each node; default: the preset's, else 1."""
    gpus_per_node: int | None = None
    cpus_per_task: int | None = None
    mem: str | None = None
    mem_per_cpu: str | None = None
    mem_per_gpu: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    dependency: str | None = None
    """Jobs outside the experiment that come first, in sbatch's words: ``afterok:123:124``, ``singleton``. A job whose
    dependency can never be fulfilled is removed from the queue."""
    nodelist: str | None = None
    exclude: str | None = None
    exclusive: bool | None = None
    """Share the nodes with nobody; default: the preset's, else false."""
    mail_type: str | None = None
    mail_user: str | None = None
    mpi: str | None = None
    """Value of ``srun --mpi``; None leaves the option out."""
    master_port: int = 13742
    """First port tried for the rendezvous; the job takes the next free one if it is taken. torchrun on a single node
    finds one itself."""
    setup: str | None = None
    """Shell text run once on the first node before the processes start (module load …)."""
    srun_args: tuple[str, ...] = ()
    """Further options for the srun that starts the processes."""
    sbatch_args: tuple[str, ...] = ()
    """Further options for sbatch, each as ``--name=value``; written as directives."""
    job_dir: str | None = None
    """Where the job's own files lie, when the experiment directory is not visible to the nodes."""
    container_image: str | None = None
    """Image for pyxis: a ``.sqsh`` file or a registry reference; None runs without a container."""
    container_mounts: tuple[VolumeMapping, ...] = ()
    """More folders or files in the container; what the launcher needs is mounted without being named."""
    container_workdir: str | None = None
    """Working directory in the container; default: the work dir."""
    container_mount_home: bool | None = None
    """``--container-mount-home`` / ``--no-container-mount-home``; None leaves it to the site."""
    container_writable: bool | None = None
    """``--container-writable`` / ``--container-readonly``: the image's own files; None leaves it to the site."""
    container_name: str | None = None
    """Keep the container on its nodes until the job's end under this name with the job's id, ``NAME-42``, so that
    ``srun --jobid=42 --overlap --container-name=NAME-42`` can join it; default: it has no name."""


#: The config of each kind of executor, by the word that ``-e`` and ``executor:`` take.
CONFIGS: dict[str, type[ExecutorConfig]] = {"local": LocalConfig, "slurm": SlurmConfig}


#: Kinds of other versions; no profile may take their names either.
LATER = ("skypilot",)


def no_kind(word: object, where: str = "executor") -> Problem:
    """That there is no such kind of executor, with the nearest."""
    kinds = " and ".join(CONFIGS)
    if word in LATER:
        return Problem(f"the executor {word} is not in this version", where, f"There are {kinds}.")
    from nemo_launch.config.hints import did_you_mean

    fix = did_you_mean(str(word), CONFIGS) or f"There are {kinds}."
    return Problem(f"there is no executor {word!r}", where, fix)


def field_names(config: type[ExecutorConfig]) -> tuple[str, ...]:
    """Names of the fields of a config dataclass, in order of definition."""
    return tuple(f.name for f in fields(config))


def changed(config: ExecutorConfig) -> dict[str, Any]:
    """Fields that differ from their defaults: what the user asked for, in short."""
    default = type(config)()
    return {name: value for name, value in vars(config).items() if not _same(value, getattr(default, name))}


def _same(value: object, default: object) -> bool:
    return value == default and isinstance(value, Default) == isinstance(default, Default)
