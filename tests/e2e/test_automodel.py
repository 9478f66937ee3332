"""AutoModel YAML on the real cluster: what each key does is seen inside the job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Scene
from tests.lab import Lab, Launcher
from tests.lab.pyxis import Images

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAM = """
import json, os, subprocess, sys
def tell(cfg):
    with open(sys.argv[2]) as file:
        text = file.read()
    job = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
    shown = "" if cfg.get("contained") else subprocess.run(job, capture_output=True, text=True, check=True).stdout
    line = {"cfg": cfg, "words": sys.argv[3:], "env": dict(os.environ), "text": text, "job": shown, "path": sys.path,
            "there": {p: sorted(os.listdir(p)) for p in cfg.get("look", ()) if os.path.isdir(p)},
            "writable": [p for p in cfg.get("look", ()) if os.path.isdir(p) and can_write(p)]}
    with open(os.path.join(cfg["out"], "rank-" + os.environ.get("RANK", "0")), "w") as out:
        json.dump(line, out)
def can_write(path):
    try:
        open(os.path.join(path, "probe"), "w").close()
    except OSError:
        return False
    return True
"""
REST = """\
# the recipe's own
recipe:
  _target_: mine.tell
lr: 1e-5
mine: "${STAYS}"
"""
SECTION = """\
slurm:
  job_name: fine-tune
  nodes: 2
  ntasks_per_node: 2
  time: "1:02:00"
  account: ${oc.env:TEAM}
  partition: ${PART:-a3u}
  hf_home: ${OUT}/hf
  master_port: 24680
  env_vars:
    ONE: 1.10
    HF_TOKEN: ${HF_TOKEN}
    ADDRESS: https://user:${HF_TOKEN}@host
    HOME_TOO: ${HOME}
    BARE: $HOME
  mem: 700M
  cpus_per_task: 3
  constraint: a3u
  nodelist: a3u-[0-1]
  margin: "3:00"
  setup: export FROM_SETUP="$TEAM-$((1 + 1))"
  sbatch_args: ["--nice=7"]
  srun_args: [--no-kill]
  passthrough: [TEAM]
  resume_on: timeout
  max_restarts: 3
  mail_type: NONE
"""


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*"))]


def test_every_key_is_seen_inside_the_job(there: Scene) -> None:
    out = there.launcher.user.make_dir(there.launcher.workspace / "out")
    there.launcher.write("mine.py", PROGRAM)
    there.launcher.write("cfg.yaml", SECTION + REST + f"out: {out}\n")
    env = {"TEAM": "lab", "OUT": str(out), "HF_TOKEN": "hf_0123456789"}
    done = there("finetune", "llm", "-c", "cfg.yaml", "--opt.betas=[1, 2]", "--wait", timeout=180, **env)
    assert done.returncode == 0, (done, there.logs())
    assert "set step_scheduler.checkpoint_interval or step_scheduler.ckpt_every_steps" in done.stderr
    assert "comes 3 minutes before the limit of 01:02:00" in done.stderr

    ranks = told(out)
    assert [rank["env"]["RANK"] for rank in ranks] == ["0", "1", "2", "3"]
    first = ranks[0]
    assert first["cfg"] == {
        "recipe": {"_target_": "mine.tell"}, "lr": 1e-5, "mine": "${STAYS}", "out": str(out), "opt": {"betas": [1, 2]},
    }  # fmt: skip
    assert first["text"] == REST + f"out: {out}\n" and first["words"] == ["--opt.betas=[1, 2]"]
    env_there = first["env"]
    expected = {
        "WORLD_SIZE": "4", "MASTER_ADDR": "a3u-0", "HF_HOME": f"{out}/hf", "ONE": "1.10", "HF_TOKEN": "hf_0123456789",
        "ADDRESS": "https://user:hf_0123456789@host", "HOME_TOO": str(there.launcher.home), "BARE": "$HOME",
        "FROM_SETUP": "lab-2", "TEAM": "lab", "SLURM_JOB_NAME": "fine-tune", "SLURM_CPUS_PER_TASK": "6",
        "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_PER_NODE": "2",
    }  # fmt: skip
    assert {name: env_there.get(name) for name in expected} == expected
    assert 24680 <= int(env_there["MASTER_PORT"]) < 25680
    for part in (
        "JobName=fine-tune", "Account=lab", "Partition=a3u", "TimeLimit=01:02:00", "NumNodes=2", "MinMemoryNode=700M",
        "Features=a3u", "ReqNodeList=a3u-[0-1]", "Nice=7", "Requeue=1",
    ):  # fmt: skip
        assert part in first["job"], part
    # the cluster has this account alone, and puts every job there
    assert "#SBATCH --account=lab\n" in next(there.directory().glob("*.sh")).read_text()
    for path in there.launcher.runs.rglob("*"):
        if path.is_file():
            assert b"hf_0123456789" not in path.read_bytes(), path
    record = json.loads((there.directory() / "task.json").read_text())
    assert record["config"]["opt.betas.1"] == 2 and set(record["secrets"]) == {"HF_TOKEN", "ADDRESS"}
    assert record["executor"]["config"]["max_restarts"] == 3


@pytest.mark.slow
def test_srun_ranks_without_partition_use_the_sites_own(there: Scene) -> None:
    out = there.launcher.user.make_dir(there.launcher.workspace / "out")
    there.launcher.write("mine.py", PROGRAM)
    section = "slurm: {ntasks_per_node: 2, gpus_per_node: 1, launcher: srun, mem: 300M, time: '30'}\n"
    there.launcher.write("cfg.yaml", section + REST + f"out: {out}\n")
    done = there("-c", "cfg.yaml", "--wait")
    assert done.returncode == 0, (done, there.logs())
    first, second = told(out)
    assert (first["env"]["RANK"], second["env"]["RANK"]) == ("0", "1")
    assert "Partition=a3m" in first["job"] and "TimeLimit=00:30:00" in first["job"]
    assert first["env"]["SLURM_GPUS_PER_NODE"] == "1" and "TORCHELASTIC_RUN_ID" not in first["env"]


@pytest.mark.slow
def test_after_a_restart_the_recipe_is_sent_to_the_latest_checkpoint(there: Scene) -> None:
    there.launcher.write(
        "mine.py",
        "import json, os, sys\n"
        "def train(cfg):\n"
        "    print('RESTORE', cfg['checkpoint'].get('restore_from'), sys.argv[3:], flush=True)\n"
        "    if cfg['checkpoint'].get('restore_from'):\n"
        "        return 0\n"
        "    os.makedirs('saved/epoch_0_step_9')\n"
        "    os.symlink('epoch_0_step_9', 'saved/LATEST')\n"
        "    return 9\n",
    )
    there.launcher.write(
        "cfg.yaml",
        "slurm: {launcher: none, mem: 300M, time: '30', resume_on: 'error:9', partition: a3m}\n"
        "recipe: mine.train\ncheckpoint: {checkpoint_dir: saved}\nstep_scheduler: {ckpt_every_steps: 5}\n",
    )
    done = there("-c", "cfg.yaml", "--wait", timeout=240)
    assert done.returncode == 0, (done, there.logs())
    assert "saves no checkpoint" not in done.stderr
    latest = there.launcher.work / "saved" / "LATEST"
    log = there.log()
    assert "RESTORE None []" in log
    assert f"RESTORE {latest} ['--checkpoint.restore_from={latest}']" in log


#: AutoModel as far as its recipes are started: the class of the example, and what reads its config.
STAND_IN = {
    "nemo_automodel/recipes/llm/train_ft.py": """
import json, os
class TrainFinetuneRecipeForNextTokenPrediction:
    def __init__(self, cfg):
        self.cfg = cfg
    def setup(self):
        self.line = {"path": self.cfg["path"], "argv": self.cfg["argv"], "env": dict(os.environ)}
    def run_train_validation_loop(self):
        with open(os.path.join(os.environ["OUT"], "rank-" + os.environ["RANK"]), "w") as out:
            json.dump(self.line, out)
""",
    "nemo_automodel/components/config/_arg_parser.py": """
import sys
def parse_args_and_load_config(path):
    with open(path) as file:
        return {"path": file.read(), "argv": sys.argv[1:]}
""",
}


@pytest.mark.slow
def test_the_example_runs_automodels_recipe_on_two_nodes(there: Scene) -> None:
    out = there.launcher.user.make_dir(there.launcher.workspace / "out")
    for name, text in STAND_IN.items():
        there.launcher.write(name, text)
    example = EXAMPLES / "automodel_slurm.yaml"
    there.launcher.write("example.yaml", example.read_text())
    few = ["--nproc-per-node", "2", "--mem", "500M", "--env", f"OUT={out}"]
    done = there(
        "finetune", "llm", "-c", "example.yaml", "--optimizer.lr=1e-4", *few, "--wait", HF_TOKEN="hf_012345678"
    )
    assert done.returncode == 0, (done, there.logs())
    ranks = told(out)
    assert [rank["env"]["RANK"] for rank in ranks] == ["0", "1", "2", "3"]
    first = ranks[0]
    assert first["argv"][0] == "-c" and first["argv"][2:] == ["--optimizer.lr=1e-4"]
    text = example.read_text()
    assert first["path"] == text[: text.index("slurm:\n")] + text[text.index("\nrecipe:") :]
    assert first["env"]["HF_HOME"] == f"{there.launcher.home}/.cache/huggingface"
    assert first["env"]["HF_TOKEN"] == "hf_012345678" and first["env"]["SLURM_JOB_NAME"] == "llama-squad"


@pytest.mark.slow
def test_containers_and_mounts(
    make_launcher: Callable[[Lab | None], Launcher], slurm_pyxis: Lab, images: Images
) -> None:
    launcher = make_launcher(slurm_pyxis)
    made = {name: launcher.user.make_dir(launcher.workspace / name) for name in ("out", "a", "b", "c", "src", "hf")}
    for name in ("a", "b", "c"):
        (made[name] / f"in-{name}").write_text("")
    launcher.write("mine.py", PROGRAM)
    (made["src"] / "nemo_source.py").write_text("")
    launcher.write(
        "cfg.yaml",
        "slurm:\n  partition: a3m\n  mem: 500M\n  launcher: none\n  time: '30'\n"
        f"  container_image: {images.full}\n  nemo_mount: {made['src']}:/opt/Automodel\n  hf_home: {made['hf']}\n"
        f"  extra_mounts:\n  - {made['a']}:/mnt/a\n  - {{source: {made['b']}, dest: /mnt/b}}\n"
        f"  - {made['c']}:/mnt/c:ro\n"
        f"  - {made['out']}\n  env_vars: {{FOR_IT: x}}\n"
        f"recipe: mine.tell\ncontained: true\nout: {made['out']}\nlook: [/mnt/a, /mnt/b, /mnt/c, /opt/Automodel]\n",
    )
    done = launcher("-c", "cfg.yaml", "--wait")
    logs = "\n".join(path.read_text() for path in launcher.runs.glob("experiments/*/*/*/[0-9]*.log"))
    assert done.returncode == 0, (done, logs)
    (line,) = told(made["out"])
    assert line["there"]["/mnt/a"] == ["in-a"] and "in-b" in line["there"]["/mnt/b"]
    assert line["there"]["/mnt/c"] == ["in-c"] and "/mnt/c" not in line["writable"] and "/mnt/a" in line["writable"]
    assert "nemo_source.py" in line["there"]["/opt/Automodel"] and "/opt/Automodel" in line["path"]
    assert line["env"]["HF_HOME"] == str(made["hf"]) and line["env"]["FOR_IT"] == "x"
