"""A script that was written for sbatch: what it asks for is not granted in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_launch.executors.slurm import directives
from nemo_launch.task import Code, Task


def told(path: Path, text: str) -> str:
    path.write_text(text)
    task = Task(name="a", recipe=str(path), language="shell", argv=("/snapshots/x/a.sh",))
    return " ".join(directives.notes(task))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "#!/bin/bash\n#SBATCH --nodes=2 -p a3m\n\n# x\n#SBATCH --export=A=s3cr3t # y\n:",
            "--nodes, -p, --export",
        ),
        ("#SBATCH -N2\n#SBATCH -N2\n", "-N2"),
        ("#SBATCH --comment='open\n", "--comment"),
    ],
)
def test_lines_that_sbatch_would_have_read_are_named(tmp_path: Path, text: str, options: str) -> None:
    assert f"#SBATCH lines ({options}), which have no effect" in told(tmp_path / "a.sh", text)
    assert "s3cr3t" not in told(tmp_path / "a.sh", text)


@pytest.mark.parametrize("text", ["", "echo\n#SBATCH --nodes=2\n", "##SBATCH --nodes=2\n", "# SBATCH -N2\n", "\xff\n"])
def test_others_are_not(tmp_path: Path, text: str) -> None:
    assert told(tmp_path / "a.sh", text) == ""


def test_a_text_in_python_is_looked_at_as_well() -> None:
    code = Code("inline", "0123", texts={"a.sh": b"#SBATCH --time=5\ntrue\n"})
    task = Task(name="a", recipe="inline", language="shell", argv=("/s/a.sh",), code=(code,))
    assert "(--time)" in " ".join(directives.notes(task))
    assert list(directives.notes(Task(name="a", recipe="/not/there", language="shell", argv=("/x",)))) == []
