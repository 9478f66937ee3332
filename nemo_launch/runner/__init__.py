"""What runs on the nodes: the batch script's text and the files that are copied beside it.

``batch_script`` = shebang + directives + assignments + ``restarts.sh`` and ``skeleton.sh`` verbatim: no template
engine, so they are real bash that shellcheck reads. Slurm and Local use the same skeleton; only the assignments differ.

::

    restarts.sh   why a job ended and whether it starts again: functions of …
    skeleton.sh   once, on the first node: claim, records, port, start, signals, exit code
    group.sh      of a group: starts the batch script of each command, and ends them by the policy
    node.py       once a node: checks torch and the port, then is torchrun or ft_launcher
    rank.py       one rank (Python programs, everything under torchrun): runs the program
    output.py     … its labelled lines
    failure.py    … the record of how it ended
    recipe.py     a recipe that was a Python object: the program itself, beside its graph
    build.py      … builds the graph, as fiddle would
    factories.py  … its Partials and ArgFactories
    sources.py    … functions and classes that travelled as text
    automodel.py  a recipe that is an AutoModel YAML: the program itself, beside its config
    rank.sh       the same for other programs, with nothing but /bin/sh and basic utilities
    nsys.sh       … under nsys profile
    python.sh     in a container, before Python: is there one, and a new enough one?
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from nemo_launch.task import Language


class Value(NamedTuple):
    """One value that the skeleton reads. A tuple as default makes it a bash array; None: must be given."""

    meaning: str
    default: str | tuple[str, ...] | None = None


#: The interface of skeleton.sh: every name, its meaning, its default.
VALUES: Mapping[str, Value] = {
    "nl_scheduler": Value("slurm or local"),
    "nl_experiment": Value("id of the experiment"),
    "nl_task": Value("name of the task"),
    "nl_job_dir": Value("the job's folder (TaskPaths.job_dir), absolute, as the nodes see it"),
    "nl_work_dir": Value("where the processes start, absolute"),
    "nl_launcher": Value("torchrun, ft (Slurm only), srun (Slurm only) or none"),
    "nl_language": Value("python or shell"),
    "nl_program": Value("the script and its arguments, exactly as the processes get them", ()),
    "nl_interpreter": Value("words before the program; empty: nl_python, or for shell: bash, else sh", ()),
    "nl_python": Value("interpreter for Python programs and for torchrun; a path or a name on PATH", "python3"),
    "nl_pythonpath": Value("folders that come first on PYTHONPATH", ()),
    "nl_nodes": Value("number of nodes", "1"),
    "nl_ntasks_per_node": Value("processes (ranks) on each node", "1"),
    "nl_cpus_per_task": Value("processors of a rank under srun; empty: the node's divided by the ranks", ""),
    "nl_gpus_per_node": Value("GPUs that the step asks for on each node; empty: the option is left out", ""),
    "nl_master_port": Value("first port tried for the rendezvous", "13742"),
    "nl_fabric": Value(
        "networks between the nodes, as key=value words (config.fabrics): each begins with its directory=, and the "
        "first whose directory is there is used",
        (),
    ),
    "nl_user_env": Value("variables of the user's: nothing of the fabric takes their place", ()),
    "nl_srun_args": Value("further options of the srun that starts the processes (--mpi=…)", ()),
    "nl_container_name": Value("the container's name without the job's id; empty: it has none", ""),
    "nl_mounts": Value("paths that every node must have before its container starts", ()),
    "nl_folders": Value("folders that every node makes before that", ()),
    "nl_setup": Value("shell text, run in the work dir before the processes start", ""),
    "nl_env": Value(
        "NAME=VALUE words that the processes get and this script's own tools must not (see environment)", ()
    ),
    "nl_signal": Value("signal that the processes get with the checkpoint request, such as USR1; empty: none", ""),
    "nl_secrets_file": Value("file of NAME=VALUE entries, each ended by NUL (see secrets_file); empty: none", ""),
    "nl_resume_on": Value("causes after which the job starts again (resume_on); empty: never (see restarts.sh)", ()),
    "nl_resume_codes": Value("exit codes that count as the cause error; empty: all but 0", ()),
    "nl_max_restarts": Value("how often it starts again at most", "0"),
    "nl_margin": Value("seconds between checkpoint request and time limit; empty: 600, at most a fifth of it", ""),
    "nl_ft": Value("options of ft_launcher (config.ft)", ()),
    "nl_nsys": Value("options of nsys profile (config.nsys); empty: the processes run without it", ()),
    "nl_nsys_output": Value("name of its reports, or with / at the end a folder; empty: the job's folder", ""),
    "nl_nsys_ranks": Value("ranks that are profiled, each with a report; empty: a report for each node", ()),
    "nl_member": Value("1: it is a command of a group, started and ended by group.sh", ""),
    "nl_group": Value("plain or het (a heterogeneous job): its program is group.sh", ""),
    "nl_het_group": Value("of a command: number of its part of a heterogeneous job; empty: the job is none", ""),
}


def batch_script(directives: Sequence[str], values: Mapping[str, str | int | Sequence[str]]) -> str:
    """The whole text of ``job.sh``.

    Args:
        directives: whole lines such as ``#SBATCH --nodes=2``.
        values: by name, as ``VALUES`` says; those with a default may be left out.

    Raises:
        KeyError: a name that the skeleton does not know, or one that it needs and did not get.
        TypeError: text where an array belongs, or the other way round.
        ValueError: a NUL byte, which no script can carry.
    """
    unknown = sorted(set(values) - set(VALUES))
    missing = [name for name, value in VALUES.items() if value.default is None and name not in values]
    if unknown or missing:
        raise KeyError(f"values of the batch script: unknown {unknown}, missing {missing}")
    lines = [
        "#!/bin/bash",
        *directives,
        "# Written by nemo_launch; the text after the values is the same for every job.",
    ]
    for name, known in VALUES.items():
        value = values.get(name, known.default)
        if isinstance(known.default, tuple):
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise TypeError(f"{name} is an array, got {value!r}")
            lines.append(f"{name}=({' '.join(['', *map(quote, value), ''])})" if value else f"{name}=()")
        else:
            if not isinstance(value, (str, int)):
                raise TypeError(f"{name} is one word, got {value!r}")
            lines.append(f"{name}={quote(str(value))}")
    return "\n".join(lines) + "\n\n" + text("restarts.sh") + "\n" + text("skeleton.sh")


def quote(word: str) -> str:
    """A word as bash reads it back: the one place that quotes.

    Control characters are written as ``$'\\r'``: sbatch refuses a script that has a carriage return before a newline.
    """
    if "\0" in word:
        raise ValueError(f"{word!r} has a NUL byte")
    if not re.search(r"[\x01-\x09\x0b-\x1f\x7f]", word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + re.sub(r"[\x01-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", escaped) + "'"


def files(language: Language, launcher: str, contained: bool = False, nsys: bool = False) -> dict[str, bytes]:
    """Name -> content of the files that belong into ``<job_dir>/runner``: no more than this job needs."""
    names = ["rank.py", "output.py", "failure.py"]
    if launcher in ("torchrun", "ft"):
        names.append("node.py")
    elif language == "shell":
        names = ["rank.sh"]
    if contained and names != ["rank.sh"]:
        names.append("python.sh")
    if nsys:
        names.append("nsys.sh")
    return {name: text(name).encode() for name in names}


def secrets_file(values: Mapping[str, str]) -> bytes:
    """Content of ``nl_secrets_file``: to be written with mode 0600 into a folder of mode 0700."""
    return b"".join(f"{name}={value}\0".encode("utf-8", "surrogateescape") for name, value in values.items())


@cache
def text(name: str) -> str:
    """Content of a file of this folder."""
    """A file of this folder."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
