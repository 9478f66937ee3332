"""``#SBATCH`` lines in a user's own script: it is not what sbatch gets, so nobody reads them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

from nemo_launch.task import Task

#: sbatch reads no further than to the first command, which comes sooner.
_HEAD = 64 * 1024


def notes(task: Task) -> Iterator[str]:
    """That the script asks for something which it will not get; options only, because a value may be a secret."""
    options = list(dict.fromkeys(_options(_head(task))))
    if options:
        yield (
            f"the script has #SBATCH lines ({', '.join(options)}), which have no effect here: ask for the same with "
            "flags, or with fields of a profile or a [tool.nemo-launch] block"
        )


def _head(task: Task) -> str:
    if task.recipe == "inline":
        texts = [text for code in task.code for text in code.texts.values()]
        return texts[0][:_HEAD].decode("utf-8", "replace") if texts else ""
    with contextlib.suppress(OSError), open(task.recipe, encoding="utf-8", errors="replace") as file:
        return file.read(_HEAD)
    return ""


def _options(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            try:
                words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError:  # a quote that is not closed: sbatch would take something
                words = line.split()[1:]
            yield from (word.partition("=")[0] for word in words if word.startswith("-"))
        elif line.strip() and not line.startswith("#"):
            return
