"""A launch that comes to nothing leaves nothing; no cluster is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nemo_launch import Experiment, SchedulerRefused, Script, SlurmExecutor
from nemo_launch.transport import Completed, LocalTransport


class Refusing(LocalTransport):
    """A login node whose sbatch says no."""

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        if argv[0].endswith("sbatch"):
            return Completed(1, "", "sbatch: error: Batch job submission failed: Invalid account")
        return Completed(0, "sbatch\n", "")


def test_a_refused_launch_leaves_no_files_where_the_nodes_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "work").mkdir()
    shared = tmp_path / "shared"
    executor = SlurmExecutor(job_dir=str(shared), work_dir=str(tmp_path / "work"), transport=Refusing())
    experiment = Experiment("demo", executor)
    experiment.add(Script(inline="true"))
    with pytest.raises(SchedulerRefused, match="Invalid account"):
        experiment.run(detach=True)
    assert Experiment.catalog() == []
    assert [path for path in shared.rglob("*") if path.is_file() and "snapshots" not in path.parts] == []
