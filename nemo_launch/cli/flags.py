"""The launch flags, as one table: what is typed, which config field it sets, one line of help.

Only the standard library's argparse is imported here: ``--help`` must answer at once.
"""

from __future__ import annotations

from typing import NamedTuple


class Flag(NamedTuple):
    """One launch flag. ``metavar`` empty: a switch. ``field``: the config field it sets, if any."""

    names: tuple[str, ...]
    metavar: str
    field: str
    help: str
    repeat: bool = False

    @property
    def dest(self) -> str:
        """Attribute of the parsed namespace."""
        return self.names[-1].lstrip("-").replace("-", "_")

    @property
    def shown(self) -> str:
        """As errors name it: ``-n/--nodes``."""
        return "/".join(self.names)


#: Flags by group of ``--help``.
GROUPS: dict[str, tuple[Flag, ...]] = {
    "what to run": (
        Flag(
            ("-s", "--script"),
            "FILE",
            "",
            "script or recipe file; absolute, or below the work dir, this dir or recipes/",
        ),
        Flag(
            ("-c",), "FILE", "", "AutoModel YAML: says what to run, and in slurm: where; --KEY.SUB=VALUE overrides it"
        ),
        Flag(("--experiment-name",), "TITLE", "", "title of the experiment (default: the script's name)"),
        Flag(("-d", "--work-dir"), "DIR", "work_dir", "directory the script works in (default: this one)"),
        Flag(("--env",), "NAME[=VALUE]", "env_vars", "variable for the job; without =VALUE: as it is set here", True),
        Flag(("--secret",), "NAME", "secrets", "variable whose value is passed on and written nowhere", True),
        Flag(("--entrypoint",), "PROGRAM", "", "run FILE with this as a plain script, even if it is a recipe file"),
        Flag(("--python",), "PROGRAM", "python", "interpreter where the script runs (default: this one)"),
        Flag(("--no-snapshot",), "", "snapshot", "run from the work dir itself, not from a copy of the code"),
        Flag(("--include",), "PATH", "include", "file or folder that a rule would leave out of the copy", True),
    ),
    "where to run it": (
        Flag(("-e", "--executor"), "NAME", "", "local (default), slurm, or a name in profiles.yaml"),
        Flag(("--config",), "FILE", "", "YAML file with settings of the executor; flags rank above it"),
        Flag(
            ("--slurm-type",), "TYPE", "slurm_type", "GPU cluster preset: hcc-a3m, hcc-a3u, hcc-a4, hcc-a3h or your own"
        ),
        Flag(("-p", "--partition"), "NAME", "partition", "Slurm partition (default of run.py: general)"),
        Flag(("-n", "--nodes"), "N", "nodes", "number of nodes"),
        Flag(("--nproc-per-node", "--ntasks-per-node"), "N", "ntasks_per_node", "processes on each node"),
        Flag(("--gpus-per-node",), "N", "gpus_per_node", "GPUs on each node"),
        Flag(("--cpus-per-task",), "N", "cpus_per_task", "processors for each process"),
        Flag(("--mem",), "SIZE", "mem", "memory per node, such as 64G; 0 means all"),
        Flag(("--time",), "LIMIT", "time", "time limit: minutes, HH:MM:SS or D-HH:MM:SS"),
        Flag(("--resume-on",), "CAUSES", "resume_on", "start again after: preempted,timeout,node_fail,error:1,7"),
        Flag(("--max-restarts",), "N", "max_restarts", "start again so often at most (default: 10)"),
        Flag(("--account",), "NAME", "account", "account that is charged"),
        Flag(("--qos",), "NAME", "qos", "quality of service"),
        Flag(("--constraint",), "FEATURES", "constraint", "node features that are required"),
        Flag(("--reservation",), "NAME", "reservation", "reservation to use"),
        Flag(("--dependency",), "JOBS", "dependency", "jobs that come first, as sbatch names them: afterok:123"),
        Flag(("--exclusive",), "", "exclusive", "share the nodes with nobody"),
        Flag(("--launcher",), "NAME", "launcher", "how processes start: torchrun, ft, srun or none"),
        Flag(("--master-port",), "PORT", "master_port", "first port tried for the rendezvous"),
        Flag(("--nsys",), "", "nsys_enabled", "profile with NVIDIA Nsight Systems: one .nsys-rep for each node"),
        Flag(("--job-dir",), "DIR", "job_dir", "where the job's files lie, if nodes do not see NEMORUN_HOME"),
        Flag(("--srun-arg",), "OPTION", "srun_args", "further option for srun: --srun-arg=--name=value", True),
        Flag(("--sbatch-arg",), "OPTION", "sbatch_args", "further option for sbatch: --sbatch-arg=--name=value", True),
    ),
    "container and directories": (
        Flag(("-i", "--image"), "IMAGE", "container_image", "container image: a .sqsh file or docker://…"),
        Flag(("--mount",), "SRC:DST", "container_mounts", "directory to mount in the container", True),
        Flag(("--log-dir",), "DIR", "log_dir", "directory for the script's logs (NEMO_LAUNCH_LOG_DIR)"),
        Flag(("--cache-dir",), "DIR", "cache_dir", "directory for caches (HF_HOME, TORCH_HOME, megatron)"),
        Flag(("--data-dir",), "DIR", "data_dir", "directory with the data (NEMO_LAUNCH_DATA_DIR)"),
    ),
    "how to launch": (
        Flag(("--dry-run",), "", "", "show what would be submitted; write and start nothing"),
        Flag(("--wait",), "", "", "wait for the end without showing the log; exit 1 unless it succeeded"),
        Flag(("--follow",), "", "", "show the log until the end (default of local runs); exit as --wait"),
        Flag(("--detach",), "", "", "print the status block and return (default of slurm runs)"),
        Flag(("--again",), "", "", "start another even if the same launch was cut off and could be gone on with"),
        Flag(("--json",), "", "", "print JSON instead of text"),
    ),
    "about this program": (
        Flag(("--debug",), "", "", "show tracebacks"),
        Flag(("--version",), "", "", "print the version"),
    ),
}
FLAGS = tuple(flag for flags in GROUPS.values() for flag in flags)
BY_FIELD = {flag.field: flag for flag in FLAGS if flag.field}
#: Fields that hold a path; as typed they are relative to where the launcher was called.
DIRECTORIES = ("work_dir", "log_dir", "cache_dir", "data_dir", "job_dir")
