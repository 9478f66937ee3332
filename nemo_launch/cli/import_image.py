"""``run.py import-image IMAGE TARGET``: a registry's image becomes a ``.sqsh`` file, by a Slurm job of its own."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, cast

from nemo_launch.cli.flags import BY_FIELD, FLAGS, Flag
from nemo_launch.cli.parser import add_flag, verb_parser

if TYPE_CHECKING:
    from nemo_launch.cli.request import Request
    from nemo_launch.config.executor import SlurmConfig
    from nemo_launch.config.layers import Merged
    from nemo_launch.errors import Problem

#: Launch flags that mean the same here.
_FLAGS = (
    "--executor", "--config", "--partition", "--account", "--qos", "--time", "--constraint", "--reservation",
    "--dependency", "--cpus-per-task", "--mem", "--exclusive", "--job-dir", "--sbatch-arg", "--experiment-name",
    "--dry-run", "--wait", "--follow", "--detach", "--again", "--json",
)  # fmt: skip
#: Fields of a profile that are about the job and not about what trains in it.
_KEPT = frozenset(
    [
        "account", "partition", "qos", "time", "constraint", "reservation", "dependency", "nodelist", "exclude",
        "exclusive", "cpus_per_task", "mem", "mem_per_cpu", "mail_type", "mail_user", "job_dir", "sbatch_args", "setup",
        "env_vars", "passthrough", "inherit_env",
    ]
)  # fmt: skip
_EPILOG = """\
example:
  run.py import-image -p a3m docker://nvcr.io#nvidia/nemo:25.02 nemo.sqsh --wait

The job runs enroot on one node, with half of the node's processors, and replaces TARGET when the new file is complete.
Credentials: for *.pkg.dev gcloud on the node, else ~/.config/enroot/.credentials, else what docker login left here.
status, logs and cancel work as for every launch.
"""


def run(prog: str, argv: list[str]) -> int:
    """Launch the job that imports an image."""
    parser = verb_parser(prog, "import-image", epilog=_EPILOG.replace("run.py", prog))
    parser.add_argument("reference", metavar="IMAGE", help="docker://[REGISTRY#]NAME[:TAG]")
    parser.add_argument("target", metavar="TARGET", help="file to make, where the nodes see it: nemo.sqsh")
    chosen = [flag for flag in FLAGS if flag.names[-1] in _FLAGS]
    for flag in chosen:
        add_flag(parser, _in_our_words(flag))
    parser.set_defaults(**{flag.dest: None if flag.metavar else False for flag in FLAGS if flag not in chosen})
    flags = parser.whole(argv)

    from nemo_launch.cli import launch

    return launch.go(prog, flags, _request(flags))


def _in_our_words(flag: Flag) -> Flag:
    words = {
        "--executor": "slurm (default), or a profile for Slurm",
        "--experiment-name": "title of the experiment (default: import-NAME)",
        "--cpus-per-task": "processors that enroot uses (default: half of a node's)",
        "--follow": "show the log until the end; exit as --wait",
        "--detach": "print the status block and return (default)",
    }
    return flag._replace(help=words.get(flag.names[-1], flag.help))


def _request(flags: argparse.Namespace) -> Request:
    """What to launch.

    Raises:
        InputError: everything that is wrong with it.
    """
    from dataclasses import replace

    from nemo_launch import here, runner
    from nemo_launch.cli import credentials, request
    from nemo_launch.errors import InputError
    from nemo_launch.executors.slurm import SlurmExecutor
    from nemo_launch.experiments.experiment import Experiment
    from nemo_launch.recipes import Script

    flags.executor = flags.executor or "slurm"
    image, registry, problems = _image(flags.reference)
    problems += request.modes(flags)
    target = here.absolute(flags.target)
    problems += _target(flags.target, target)
    config, merged, more = _config(flags, target)
    problems += more
    if problems:
        raise InputError(dict.fromkeys(problems))
    processors = config.cpus_per_task or _half_of_a_node(config)
    executor = SlurmExecutor(replace(config, cpus_per_task=processors))
    secret = credentials.netrc(registry, os.environ)
    recipe = Script(
        inline=runner.text("import_image.sh"),
        args=(image, target, str(processors), registry),
        env={"NEMO_LAUNCH_IMPORT_SECRET": secret} if secret else {},
    )
    title = flags.experiment_name or f"import-{os.path.splitext(os.path.basename(target))[0]}"
    experiment = Experiment(title, executor)
    experiment.add(recipe, name=title)
    mode = next((mode for mode in ("follow", "wait") if getattr(flags, mode)), "detach")
    notes = (f"taken for {image}: a registry is told from a name by #",) if image != flags.reference else ()
    return request.Request(
        experiment, executor, mode, lambda where: request.place(merged, where), bool(flags.experiment_name), notes
    )


def _config(flags: argparse.Namespace, target: str) -> tuple[SlurmConfig, Merged, list[Problem]]:
    """The job: what profile, file and flags say about jobs, and what this one is."""
    from nemo_launch.cli import request
    from nemo_launch.cli import values as typed
    from nemo_launch.config import structure
    from nemo_launch.config.executor import SlurmConfig
    from nemo_launch.config.layers import Layer, merge
    from nemo_launch.errors import Problem

    kind, layers, problems = request.layers(flags)
    if kind != "slurm":
        fix = "Use slurm, or a profile for it."
        problems.append(Problem("images are imported by Slurm jobs", "-e/--executor", fix))
    values, more = typed.of_flags(flags)
    problems += typed.empty(flags) + more
    kept = [layer._replace(values={k: v for k, v in layer.values.items() if k in _KEPT}) for layer in layers]
    merged = merge([*kept, Layer(lambda key: BY_FIELD[key].shown, values, adds=True)])
    request.default_partition(merged)
    # The nodes must see the target's folder anyway; the current one they need not.
    merged.values.update(work_dir=os.path.dirname(target), launcher="none", snapshot=False)
    config, more = structure.check(SlurmConfig, merged.values, merged.place, from_text=set(values))
    return cast("SlurmConfig", config), merged, [*problems, *more]


def _image(text: str) -> tuple[str, str, list[Problem]]:
    """(image as enroot reads it, its registry, what is wrong). Without a # enroot would ask docker's own registry."""
    from nemo_launch.errors import Problem

    if re.search(r"://[^@/]*:[^@/]*@(?!sha256:)", text):
        fix = "Everybody can read command lines: put it into ~/.config/enroot/.credentials, or call docker login."
        return text, "", [Problem("it holds a password", "IMAGE", fix)]
    match = re.fullmatch(r"docker://([^@#]*@(?!sha256:))?(?:([^#]*)#)?([^#@\s]+(?:@sha256:\w+)?)", text)
    if not match:
        fix = "Write docker://[REGISTRY#]NAME[:TAG], as in docker://nvcr.io#nvidia/nemo:25.02."
        if re.fullmatch(r"[\w.#:-]+(/[\w.#:-]+)*", text):
            fix = f"Did you mean docker://{text}? {fix}"
        return text, "", [Problem(f"{text!r} is no image of a registry", "IMAGE", fix)]
    user, registry, name = match[1] or "", match[2] or "", match[3]
    first, _, rest = name.partition("/")
    if not registry and rest and re.search(r"[.:]|^localhost$", first):
        registry, name = first, rest
    return f"docker://{user}{f'{registry}#' if registry else ''}{name}", registry, []


def _target(text: str, path: str) -> list[Problem]:
    from nemo_launch.errors import Problem

    if "://" in text:
        fix = "Name a file that the nodes see, and copy it to the bucket afterwards."
        return [Problem(f"{text!r} is no path", "TARGET", fix)]
    if text.endswith("/") or os.path.isdir(path):
        return [Problem(f"{path} is a directory", "TARGET", f"Name a file in it: {os.path.join(path, 'image.sqsh')}.")]
    if "\n" in path:
        return [Problem("it holds a line break", "TARGET", "Choose another name.")]
    return []


def _half_of_a_node(config: SlurmConfig) -> int:
    """Half of the processors of the partition's smallest node; 1 where nobody can tell."""
    from nemo_launch.errors import SchedulerError
    from nemo_launch.executors.slurm import commands
    from nemo_launch.transport import LocalTransport

    argv = ["sinfo", "-h", "-o", "%c", *(["-p", config.partition] if config.partition else [])]
    try:
        done = LocalTransport().run(argv, env=commands.query(), timeout=commands.PATIENCE)
    except SchedulerError:  # the launch says so
        return 1
    counts = [int(found) for found in re.findall(r"^\s*(\d+)", done.stdout, re.MULTILINE)]
    return max(1, min(counts, default=1) // 2)
