"""The example of a profiled run on the real cluster, with a recipe and an nsys that stand in for NVIDIA's."""

from __future__ import annotations

import re

from tests.docs.page import ROOT
from tests.e2e.scene import Scene
from tests.lab.nsys import STAND_IN

PROGRAM = """
import os
def train(cfg):
    print("rank", os.environ["RANK"], "max_steps", cfg["step_scheduler"]["max_steps"], "slurm" in cfg)
"""


def test_the_example_writes_a_report_for_each_node(there: Scene) -> None:
    text = (ROOT / "examples" / "automodel_nsys.yaml").read_text()
    text, count = re.subn(r"_target_: nemo_automodel\.recipes\S+", "_target_: mine.train", text)
    assert count == 1
    there.launcher.write("cfg.yaml", text)
    there.launcher.write("mine.py", PROGRAM)
    folder = there.launcher.write("bin/nsys", STAND_IN.read_text(), 0o755).parent
    words = ("--ntasks-per-node", "2", "--gpus-per-node", "0", "--mem", "700M", "--env", "PATH")
    path = f"{folder}:{there.launcher.env()['PATH']}"
    done = there(
        "finetune", "llm", "-c", "cfg.yaml", *words, "--wait", timeout=180, PATH=path, HF_TOKEN="hf_0123456789"
    )
    assert done.returncode == 0, (done, there.logs())
    assert "nsys profiling is for diagnosis: it slows the training" in done.stdout + done.stderr
    assert len(re.findall(r"\] rank [0-3] max_steps 20 False\n", there.logs())) == 4
    reports = sorted((there.launcher.work / "profiles").glob("profile-*.nsys-rep"))
    assert [re.sub(r"profile-\d+-0-", "", report.name) for report in reports] == [
        "a3m-0.nsys-rep",
        "a3m-1.nsys-rep",
    ]
    for report in reports:
        assert {"--trace=cuda,nvtx,osrt", "--cuda-memory-usage=true"} <= set(report.read_text().splitlines())
