"""Which further options sbatch and srun may get: none that a field says, and none that breaks what a run promises.

Both programs read options as getopt does: ``--arr`` is ``--array``, and ``-Ha0-3`` holds two options. So a name is
refused when it could mean a guarded one, and short options stand alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nemo_launch.errors import Problem

#: Long option -> the field that says it, for both programs.
_FIELDS = {
    name: name.replace("-", "_")
    for name in (
        "account", "partition", "qos", "time", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node",
        "constraint", "reservation", "dependency", "nodelist", "exclude", "mail-type", "mail-user", "job-name", "mpi",
        "container-image", "container-mounts", "container-workdir", "container-mount-home",
        "container-writable", "container-name",
    )
} | {
    "chdir": "work_dir", "signal": "margin and signal", "ntasks": "nodes and ntasks_per_node",
    "tasks-per-node": "ntasks_per_node", "no-container-mount-home": "container_mount_home",
    "container-readonly": "container_writable",
    "container-env": "env_vars", "export": "env_vars, passthrough or inherit_env",
    "export-file": "env_vars, passthrough or inherit_env",
}  # fmt: skip
#: … of sbatch alone: a step's share of memory (srun --mem) is another thing than the job's, and free.
_FIELDS_OF_SBATCH = {
    "mem": "mem", "mem-per-cpu": "mem_per_cpu", "mem-per-gpu": "mem_per_gpu", "exclusive": "exclusive",
}  # fmt: skip
#: Long option -> why nobody but the launcher may set it, for both programs.
_OWN = {
    "output": "the log is always <task directory>/<job id>.log",
    "error": "all lines go to <task directory>/<job id>.log",
    "input": "the processes get no input",
    "test-only": "use --dry-run of the launcher",
    "help": "it is not an option of a job",
    "usage": "it is not an option of a job",
    "version": "it is not an option of a job",
    "uid": "jobs run as the user who launches them",
    "gid": "jobs run as the user who launches them",
}
#: Program -> the same for it alone.
_GUARDED: Mapping[str, Mapping[str, str]] = {
    "sbatch": {
        "clusters": "jobs of other clusters are not part of this version",
        "open-mode": "logs are always appended to",
        "parsable": "the launcher reads sbatch's answer itself",
        "quiet": "the launcher reads sbatch's answer itself",
        "wait": "use --wait of the launcher",
        "wrap": "the recipe is what runs",
        "array": "add one task for each element instead",
        "kill-on-invalid-dep": "it is always yes",
        "requeue": "it follows from resume_on",
        "no-requeue": "it follows from resume_on",
        "comment": "it says which script this is",
        "get-user-env": "use setup, env_vars, passthrough or inherit_env",
    },
    "srun": {
        "label": "lines get their node and rank from the launcher",
        "multi-prog": "the recipe is what runs",
        "jobid": "the processes belong to this job",
        "kill-on-bad-exit": "one failed rank always ends the others",
        "wait": "one failed rank always ends the others",
        "pty": "the processes have no terminal",
        "relative": "the processes take all nodes of the job",
        "preserve-env": "the numbers of nodes and processes follow from the fields",
        "no-allocate": "the processes belong to this job",
    },
}
#: Names that a guarded one begins with and that are options themselves.
_WHOLE = {"gpus"}
#: Short option -> long one. Those with a value may carry it in the same word (-L4).
_SHORT = {
    "A": "account", "b": "begin", "B": "extra-node-info", "c": "cpus-per-task", "C": "constraint", "d": "dependency",
    "D": "chdir", "e": "error", "F": "nodefile", "G": "gpus", "i": "input", "J": "job-name", "L": "licenses",
    "m": "distribution", "M": "clusters", "n": "ntasks", "N": "nodes", "o": "output", "p": "partition", "q": "qos",
    "S": "core-spec", "t": "time", "w": "nodelist", "x": "exclude", "k": "no-kill", "s": "oversubscribe",
}  # fmt: skip
_FLAGS = {"h": "help", "H": "hold", "O": "overcommit", "Q": "quiet", "v": "verbose", "V": "version"}
_ONLY: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "sbatch": ({"a": "array"}, {"W": "wait"}),
    "srun": (
        {"I": "immediate", "K": "kill-on-bad-exit", "r": "relative", "T": "threads", "W": "wait"},
        {"E": "preserve-env", "l": "label", "u": "unbuffered", "X": "disable-status", "Z": "no-allocate"},
    ),
}


def problems(program: str, options: Iterable[str]) -> Iterator[Problem]:
    """What stands against these options of ``sbatch`` or ``srun``; one problem at most for each."""
    where = f"{program}_args"
    for option in options:
        if not option.startswith("-") or option in ("-", "--"):
            # srun would take a bare word for the program to run
            fix = "Write each option as one entry, as in --gres=gpu:1."
            yield Problem(f"{option!r} is not an option of {program}", where, fix)
            continue
        found = _long(option) if option.startswith("--") else _short(program, option)
        if found is None:
            fix = "Write each option as an entry of its own, with its long name."
            yield Problem(f"{option!r} cannot be used: short options must stand alone", where, fix)
            continue
        fields = {**_FIELDS, **_FIELDS_OF_SBATCH} if program == "sbatch" else _FIELDS
        own = {**_OWN, **_GUARDED[program]}
        name = _meant(found, {**fields, **own})
        if name in fields:
            yield Problem(f"{option!r} says again what a field says", where, f"Use {fields[name]} instead.")
        elif name is not None:
            yield Problem(f"{option!r} cannot be used: {own[name]}", where)


def _meant(name: str, guarded: Iterable[str]) -> str | None:
    """The guarded option that this name means or may mean: the shortest that begins with it."""
    if name in _WHOLE:
        return None
    return min((full for full in guarded if full.startswith(name)), key=len, default=None)


def _long(option: str) -> str:
    return option[2:].split("=")[0]


def _short(program: str, option: str) -> str | None:
    """The long name; None: unknown, or more than one option in a word."""
    letter, (valued, flags) = option[1], _ONLY[program]
    flag = {**_FLAGS, **flags}.get(letter)
    if flag is not None:
        return flag if len(option) == 2 else None
    return {**_SHORT, **valued}.get(letter)
