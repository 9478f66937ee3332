"""What asking about an experiment imports: the status of many is mostly the start of the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nemo_launch import Experiment, LocalExecutor, Script, SlurmExecutor
from nemo_launch.executors.base import Executor, Handle
from nemo_launch.experiments import launching, ledger

CHECKOUT = Path(__file__).parents[2]
CODE = "import sys; from nemo_launch.cli import main; main(['status', 'asked']); print(*sys.modules, file=sys.stderr)"

#: What only a launch needs, and what is slow to import.
LAUNCHING = {
    *("nemo_launch.recipes", "nemo_launch.task", "nemo_launch.packaging", "nemo_launch.environment"),
    *("nemo_launch.config.executor", "nemo_launch.config.structure", "nemo_launch.experiments.launching"),
    *("nemo_launch.experiments.adopting", "nemo_launch.experiments.lowering", "nemo_launch.signatures"),
    *("dataclasses", "inspect", "datetime", "hashlib", "shutil", "logging", "yaml", "cattrs", "rich", "fiddle"),
}


@pytest.mark.parametrize("executor", [SlurmExecutor(), LocalExecutor()])
def test_a_status_imports_nothing_of_launching(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path))
    experiment = Experiment("asked", executor)
    experiment.add(Script(inline="true"), name="task")
    plans = [(plan, executor) for plan in experiment.plan()]
    tasks = [(plan.task, executor) for plan, _ in plans]
    paths = launching.create(str(tmp_path), "asked", launching.request_digest("asked", tasks), tasks)
    ledger.write_handle(paths.task("task"), Handle("1"))
    done = subprocess.run([sys.executable, "-c", CODE], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "Task 0: task" in done.stdout
    assert "nemo_launch.experiments.asked" in done.stderr.split()
    assert set(done.stderr.split()) & LAUNCHING == set()
