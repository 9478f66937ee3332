"""AutoModel YAML on this machine: ``finetune llm -c``, ``-c``, and inside torchrun."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import RUN_PY, Cli

PROGRAM = """
import json, os, sys
def train(cfg):
    names = ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID")
    line = {"cfg": cfg, "words": sys.argv[3:], **{name: os.environ.get(name) for name in names}}
    print("LINE " + json.dumps(line) + "\\n", end="", flush=True)
    return cfg["code"]
"""
FILE = """\
# what runs
recipe: mine.train
model: {layers: 2, name: "${NOT_OURS}"}
lr: 1e-5
code: 0
"""


@pytest.fixture(autouse=True)
def files(cli: Cli) -> None:
    cli.script("mine.py", PROGRAM)
    cli.script("cfg.yaml", FILE)
    cli.env["CUDA_VISIBLE_DEVICES"] = ""


def lines(text: str) -> list[dict[str, object]]:
    found = [json.loads(line.partition("LINE ")[2]) for line in text.splitlines() if "LINE " in line]
    return sorted(found, key=lambda line: line["RANK"] or "")


@pytest.mark.parametrize("words", [("-c", "cfg.yaml"), ("finetune", "llm", "--config", "cfg.yaml")])
def test_one_process_without_torchrun_keeps_its_exit_code(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli(*words, "--model.layers=4", "--code", "7", "--", "--seed=1", "--lr=2e-5")
    assert done.code == 7, done
    config = {"recipe": "mine.train", "model": {"layers": 4, "name": "${NOT_OURS}"}, "lr": 2e-5, "code": 7, "seed": 1}
    (line,) = lines(done.out)
    assert line["cfg"] == config and line["TORCHELASTIC_RUN_ID"] is None
    assert line["words"] == ["--model.layers=4", "--code", "7", "--seed=1", "--lr=2e-5"]
    assert "no GPU is seen here: one process, without torchrun" in done.err
    assert cli("list").out.count("cfg_") == 1
    shown = json.loads(cli("show", "cfg", "config", "--json").out)["tasks"]["cfg"]
    assert shown["recipe"]["model.layers"] == 4 and shown["recipe"]["lr"] == 2e-5


def test_a_process_for_each_gpu_that_is_seen_unless_the_number_is_given(cli: Cli) -> None:
    cli.env["CUDA_VISIBLE_DEVICES"] = "GPU-a,GPU-b,GPU-c"
    planned = cli("-c", "cfg.yaml", "--dry-run")
    assert planned.code == 0 and "nl_ntasks_per_node=3\n" in planned.out and "nl_launcher=torchrun\n" in planned.out
    planned = cli("-c", "cfg.yaml", "--dry-run", "--nproc-per-node", "1")
    assert "nl_ntasks_per_node=1\n" in planned.out and "nl_launcher=none\n" in planned.out
    done = cli("-c", "cfg.yaml", "--nproc-per-node", "2")
    assert done.code == 0, done
    assert [(line["RANK"], line["WORLD_SIZE"]) for line in lines(done.out)] == [("0", "2"), ("1", "2")]


def test_a_dry_run_leaves_nothing(cli: Cli) -> None:
    assert cli("-c", "cfg.yaml", "--dry-run").code == 0
    assert cli.created() == []


def test_inside_torchrun_every_rank_runs_it_itself(cli: Cli) -> None:
    cli.script("cfg.yaml", FILE + "slurm:\n  nodes: 2\n")
    words = ["--nproc-per-node=2", "--standalone", "--local-addr=localhost", "-m", "nemo_launch", "finetune", "llm"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, "-c", "cfg.yaml", "--model.layers=4"],
        env={**cli.env, "PYTHONPATH": f"{RUN_PY.parent}:{cli.work}", "OMP_NUM_THREADS": "1"},
        cwd=cli.work, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done
    found = lines(done.stdout)
    assert [line["RANK"] for line in found] == ["0", "1"]
    assert [line["cfg"]["model"]["layers"] for line in found] == [4, 4]  # type: ignore[index]
    assert all("slurm" not in line["cfg"] for line in found)  # type: ignore[operator]
    assert done.stdout.count("inside torchrun the section slurm has no effect") == 1
    assert cli.created() == []


def test_inside_torchrun_exit_codes_and_flags(cli: Cli) -> None:
    inside = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "LOCAL_RANK": "1", "PYTHONPATH": str(cli.work)}
    assert cli("-c", "cfg.yaml", "--code=5", **inside).code == 5
    done = cli("-c", "cfg.yaml", "--nproc-per-node", "2", **inside)
    assert done.code == 2 and "it has no effect inside torchrun" in done.err
    cli.script("mine.py", "def train(cfg):\n    raise KeyError('lost')\n")
    done = cli("-c", "cfg.yaml", **inside)
    assert done.code == 1 and done.err.rstrip().endswith("KeyError: 'lost'") and "bug in" not in done.err


def test_a_profile_stands_below_the_section_and_flags_above(cli: Cli) -> None:
    cli.script("profiles.yaml", "site:\n  executor: slurm\n  account: team\n  partition: slow\n  nodes: 9\n")
    cli.script("cfg.yaml", FILE + "slurm:\n  nodes: 3\n  ntasks_per_node: 4\n  partition: ${PART}\n")
    for words, wanted in (
        (("-e", "site"), ("--nodes=3", "--account=team", "--partition=a3m", "--gpus-per-node=4")),
        (("-n", "5", "--nproc-per-node", "2"), ("--nodes=5", "--gpus-per-node=2", "--ntasks-per-node=2")),
    ):
        planned = cli("-c", "cfg.yaml", "--dry-run", "--python", "/no/python", *words, PART="a3m")
        if planned.code == 2 and "sbatch is not on PATH" in planned.err:
            pytest.skip("no Slurm here")
        assert planned.code in (0, 3), planned
        for option in wanted if planned.code == 0 else ():
            assert f"#SBATCH {option}\n" in planned.out
