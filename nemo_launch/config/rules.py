"""Rules that single values and their combinations must keep, whatever way the config was built."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

from nemo_launch.config import ft, nsys, options, presets
from nemo_launch.config.durations import Duration
from nemo_launch.config.executor import ExecutorConfig, LocalConfig, SlurmConfig
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.nsys import NsysOptions
from nemo_launch.config.resume import MAX_RESTARTS
from nemo_launch.errors import Problem

_FOLDERS = ("work_dir", "log_dir", "cache_dir", "data_dir", "job_dir", "container_workdir")
_COUNTS = ("max_restarts", "nodes", "ntasks_per_node", "cpus_per_task", "max_parallel")
_MEMORY = ("mem", "mem_per_cpu", "mem_per_gpu")
#: Text that is a program of its own; everything else becomes one line of a script or one word of a command.
_MULTILINE = {"setup"}
_NO_CATCH = {"KILL", "STOP"}
#: Field -> those that mean nothing without it.
_NEEDED_BY = {
    "time": ("margin", "signal"),
    "container_image": (
        "container_mounts",
        "container_workdir",
        "container_mount_home",
        "container_writable",
        "container_name",
    ),
}


def validate(config: ExecutorConfig) -> list[Problem]:
    """What is wrong with the values together; ``where`` of each problem is the field's name."""
    found = [problem for rule in (_lines, _folders, _counts, _times, _names, nsys.problems) for problem in rule(config)]
    if isinstance(config, LocalConfig):
        found += _causes(config)
    if isinstance(config, SlurmConfig):
        found += [
            problem
            for rule in (presets.problems, _memory, _port, _mounts, _image, _dependency, _options, ft.problems)
            for problem in rule(config)
        ]
    return found


def without_effect(config: ExecutorConfig) -> list[str]:
    """A line for each value that will do nothing. No mistake: a profile may hold it for other launches."""
    found = [
        f"{name} has no effect without {needed}"
        for needed, names in _NEEDED_BY.items()
        for name in names
        if getattr(config, needed, None) is None and getattr(config, name, None) not in (None, ())
    ]
    if isinstance(config, NsysOptions) and not config.nsys_enabled:
        given = [name for name in nsys.FIELDS if getattr(config, name) != getattr(NsysOptions(), name)]
        found += [f"{name} has no effect without nsys_enabled" for name in given]
    elif isinstance(config, NsysOptions) and config.nsys_capture_range_end and not config.nsys_capture_range:
        found.append("nsys_capture_range_end has no effect without nsys_capture_range")
    if isinstance(config, SlurmConfig):
        found += ft.without_effect(config)
    if not config.resume_on and config.max_restarts != MAX_RESTARTS:
        found.append("max_restarts has no effect without resume_on")
    if isinstance(config, LocalConfig) and "timeout" in config.resume_on.causes and config.time is None:
        found.append("timeout in resume_on has no effect without time")
    return found


def _causes(config: LocalConfig) -> Iterator[Problem]:
    foreign = [cause for cause in config.resume_on.causes if cause in ("preempted", "node_fail")]
    if foreign:
        what = f"{' and '.join(foreign)}: nobody preempts a task on this machine, and its supervisor fails with it"
        yield Problem(what, "resume_on", "Here there are timeout, error and error:CODE,CODE.")


def _lines(config: ExecutorConfig) -> Iterator[Problem]:
    for name, value in vars(config).items():
        texts = value if isinstance(value, tuple) else (value,)
        for text in texts:
            if not isinstance(text, str):
                continue
            if "\0" in text:
                yield Problem("it holds a NUL byte, which no command can carry", name)
            elif name not in _MULTILINE and re.search(r"[\n\r]", text):
                yield Problem("it holds a line break", name, "Write it in one line.")
            elif not text.strip():
                yield Problem("it is empty", name, "Leave it out for the default.")


def _folders(config: ExecutorConfig) -> Iterator[Problem]:
    for name in _FOLDERS:
        path = getattr(config, name, None)
        if path and not path.startswith("/"):
            yield Problem(f"{path!r} is not an absolute path", name, "Write the whole path, from / on.")


def _counts(config: ExecutorConfig) -> Iterator[Problem]:
    for name in _COUNTS:
        count = getattr(config, name, None)
        if count is not None and count < 1:
            yield Problem(f"{count} is less than 1", name)
    gpus = getattr(config, "gpus_per_node", None)
    if gpus is not None and gpus < 0:
        yield Problem(f"{gpus} is less than 0", "gpus_per_node")


def _times(config: ExecutorConfig) -> Iterator[Problem]:
    time, margin = config.time, config.margin
    if isinstance(time, Duration) and isinstance(margin, Duration) and margin >= time:
        yield Problem(
            f"{margin} before the limit is before the start: time is {time}",
            "margin",
            "Make it shorter than time.",
        )
    name = config.signal
    if name is None:
        return
    if name in _NO_CATCH:
        yield Problem(f"no process can act on {name}", "signal", "Use USR1 or another that it can catch.")
    elif f"SIG{name}" not in signal.Signals.__members__:
        short = name.upper().removeprefix("SIG")
        known = f"SIG{short}" in signal.Signals.__members__
        yield Problem(f"{name!r} is not a signal's name", "signal", f"Write {short if known else 'it as in USR1'}.")


def _names(config: ExecutorConfig) -> Iterator[Problem]:
    # Values of variables are never shown: somebody may have typed a token here.
    for field in ("secrets", "passthrough"):
        for entry in getattr(config, field):
            if "=" in entry:
                name = entry.split("=")[0]
                fix = f"Write {name} alone and export its value before launching."
                yield Problem(f"{name}=… gives a value where only names may stand", field, fix)


def _memory(config: SlurmConfig) -> Iterator[Problem]:
    given = [name for name in _MEMORY if getattr(config, name) is not None]
    if len(given) > 1:
        yield Problem(f"{' and '.join(given)} exclude each other", given[-1], "Keep one of them.")
    for name in given:
        text = getattr(config, name)
        if not re.fullmatch(r"[0-9]+[KMGTkmgt]?", text) and text.strip():
            match = re.fullmatch(r"\s*([0-9]+)\s*([KMGT])i?B?\s*", text, re.ASCII | re.IGNORECASE)
            fix = f"Write {match[1]}{match[2].upper()}." if match else "Write it as in 64G (K, M, G, T) or 0 for all."
            yield Problem(f"{text!r} is not an amount of memory", name, fix)


def _port(config: SlurmConfig) -> Iterator[Problem]:
    if not 1024 <= config.master_port <= 65535:
        yield Problem(f"{config.master_port} is not a port from 1024 to 65535", "master_port")


def _mounts(config: SlurmConfig) -> Iterator[Problem]:
    for mount in config.container_mounts:
        if not isinstance(mount, VolumeMapping):
            continue
        for path in (mount.source, mount.dest):
            if bad := re.search(r"[\s,:]", path):
                fix = "Use a path without it, such as a symbolic link to this one."
                yield Problem(f"{path!r} holds {bad[0]!r}, which pyxis cannot mount", "container_mounts", fix)
            elif not path.startswith("/"):
                yield Problem(f"{path!r} is not an absolute path", "container_mounts", "Write it from / on.")
        if mount.dest.startswith("/") and not mount.dest.strip("/"):
            yield Problem(f"{mount.source} at / would hide the image", "container_mounts", "Choose a place below /.")
        if not re.fullmatch(r"[\w=+.-]*", mount.options, re.ASCII):
            fix = "Join several with +, as in ro+rprivate."
            yield Problem(f"{mount.options!r} are no options of a mount", "container_mounts", fix)
    if config.container_name is not None and not re.fullmatch(r"\w[\w.-]*", config.container_name, re.ASCII):
        fix = "Use letters, digits and _ . -"
        yield Problem(f"{config.container_name!r} cannot be a container's name", "container_name", fix)


def _image(config: SlurmConfig) -> Iterator[Problem]:
    image = config.container_image or ""
    if image.startswith(("./", "../", "~")) or (
        image.endswith((".sqsh", ".squashfs")) and not re.match(r"/|\w+://", image)
    ):
        # pyxis would look for it in the directory of the job's script, or in a registry
        what = f"{image!r} is a file and not an absolute path"
        yield Problem(what, "container_image", "Write the whole path, from / on.")
    if image.startswith("gs://"):
        file = image.rsplit("/", 1)[-1]
        fix = f"Copy it first: gcloud storage cp {image} . and give the path of {file} where the nodes see it."
        yield Problem(f"{image} is in a bucket, where no node can start it", "container_image", fix)


_DEPENDENCY = re.compile(
    r"singleton|(after(any|notok|ok|corr|burstbuffer)?):[0-9]+([_+][0-9]+)?(:[0-9]+([_+][0-9]+)?)*", re.ASCII
)


def _dependency(config: SlurmConfig) -> Iterator[Problem]:
    text = config.dependency
    if text is not None and not all(_DEPENDENCY.fullmatch(part) for part in text.split(",")):
        fix = "Write it as in afterok:123:124 or afterany:7,singleton."
        yield Problem(f"{text!r} is not a dependency on jobs of Slurm", "dependency", fix)


def _options(config: SlurmConfig) -> Iterator[Problem]:
    yield from options.problems("srun", config.srun_args)
    yield from options.problems("sbatch", config.sbatch_args)
