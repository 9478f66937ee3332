"""A run inside torchrun (``torchrun … -m nemo_launch finetune llm -c FILE``): this process is a rank already."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Mapping

from nemo_launch.automodel.files import File
from nemo_launch.errors import InputError


def torchrun(environ: Mapping[str, str]) -> bool:
    """Whether this process was started by torchrun."""
    return all(environ.get(name) for name in ("TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK"))


def run(file: File, environ: Mapping[str, str]) -> int:
    """Run the recipe in this process; its exit code. Nothing is recorded: torchrun is in charge.

    Raises:
        InputError: the file that ``recipe:`` names is not there.
    """
    from nemo_launch import scripts
    from nemo_launch.config import sections
    from nemo_launch.runner import automodel

    kind = sections.kind_of(file.document)
    if kind and environ["RANK"] == "0":
        print(f"nemo_launch: inside torchrun the section {kind} has no effect", flush=True)
    try:
        script = scripts.find(file.path, os.getcwd()) if file.path else ""
    except InputError as error:
        where = f"{file.document.where('recipe')}: recipe"
        raise InputError([problem._replace(where=where) for problem in error.problems]) from None
    with tempfile.TemporaryDirectory(prefix="nemo-launch-") as folder:
        for name, content in file.files(script).items():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)
        try:
            return automodel.run(folder, list(file.words))
        except SystemExit as error:
            if error.code is None or isinstance(error.code, int):
                return error.code or 0
            print(error.code, flush=True)
            return 1
        except Exception:
            traceback.print_exc()  # the recipe's own
            return 1
