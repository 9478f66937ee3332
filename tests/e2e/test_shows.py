"""What is promised to whoever looks at this first: the real recipe on the real cluster, the dry run, failures."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.e2e.scene import Scene, block


def demo(scene: Scene, *more: str) -> list[str]:
    work = str(scene.launcher.work)
    where = ["-e", "slurm", "--partition", "a3m", "-d", work, "-n", "2", "--ntasks-per-node", "2"]
    return [*where, "-s", "pretrain/llama_tiny_pt.py", "--experiment-name", "nemo-demo-run", *more]


def test_show_2_the_tiny_llama_on_two_nodes(there: Scene) -> None:
    few = ["step_scheduler.max_steps=12", "step_scheduler.log_interval=3"]
    done = there(*demo(there, *few))
    assert done.returncode == 0, done.stderr
    (job,) = there.jobs()
    id = there.experiments()[0]
    assert re.fullmatch(r"nemo-demo-run_\d{10,}", id)
    folder = there.launcher.runs / "experiments" / "nemo-demo-run" / id / "nemo-demo-run"
    lines = done.stdout.splitlines()
    assert lines[:3] == [f"Experiment Status for {id}", "", "Task 0: nemo-demo-run"]
    assert re.fullmatch("- Status: (SUBMITTED|PENDING|RUNNING)", lines[3])
    assert lines[4:7] == [
        "- Executor: SlurmExecutor on @localhost",
        f"- Job id: {job}",
        f"- Local Directory: {folder}",
    ]
    waited = there("status", "--wait", "nemo-demo-run", timeout=170)
    assert waited.returncode == 0, there.log()
    assert block(waited.stdout)["Status"] == "SUCCEEDED"
    log = (folder / f"{job}.log").read_text()
    taken = re.search(r"port 13742 is taken on a3m-0: using (\d+)", log)  # by a job of somebody else on this machine
    assert f"WORLD_SIZE=4 MASTER_ADDR=a3m-0 MASTER_PORT={taken[1] if taken else 13742} " in log
    ranks = {(node, int(rank)) for node, rank in re.findall(r"^\[([^:\]]+):(\d+)\]", log, re.MULTILINE)}
    whole = {(node, rank) for node in ("a3m-0", "a3m-1") for rank in range(4)}
    assert ranks <= whole and len({node for node, _ in ranks}) == 2
    logs = sorted(path.name for path in folder.glob(f"ranks-{job}-0/rank-*.log"))
    assert logs == [f"rank-{rank}.log" for rank in range(4)]
    losses = [float(number) for number in re.findall(r"step \d+/\d+ loss ([0-9.]+)", log)]
    assert losses[-1] < losses[0]


def everything(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file below these folders, with size and time of its last change."""
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            facts = os.lstat(path)
            found[str(path)] = (facts.st_size, facts.st_mtime_ns)
    return found


def test_show_3_a_dry_run_is_what_would_be_submitted_and_leaves_no_file(there: Scene) -> None:
    user_home = Path(os.path.expanduser(f"~{there.launcher.user.name}"))
    places = (there.launcher.workspace, user_home, there.launcher.checkout / "recipes")
    before = everything(*places)
    dry = there(*demo(there, "--sbatch-arg=--hold", "--dry-run"))
    assert dry.returncode == 0, dry.stderr
    assert everything(*places) == before
    assert there.jobs() == {}

    done = there(*demo(there, "--sbatch-arg=--hold"))
    assert done.returncode == 0, done.stderr
    submitted = (there.directory() / "job.sh").read_text()
    (job,) = there.jobs()
    lab = there.launcher.lab
    assert lab is not None
    assert lab.slurm("scontrol", "write", "batch_script", job, "-").rstrip("\n\0") == submitted.rstrip("\n")
    there("cancel", "nemo-demo-run")

    (real,) = there.experiments()
    (id,) = set(re.findall(r"nemo-demo-run_\d+", dry.stdout))
    assert submitted in dry.stdout.replace(id, real)


def test_show_3_the_json_of_a_dry_run_holds_the_same_script(there: Scene) -> None:
    import json

    told = json.loads(there(*demo(there, "--sbatch-arg=--hold", "--dry-run", "--json")).stdout)
    there(*demo(there, "--sbatch-arg=--hold", "--detach"))
    submitted = (there.directory() / "job.sh").read_text()
    there("cancel", "nemo-demo-run")
    assert told["tasks"][0]["script"].replace(told["experiment"]["id"], there.experiments()[0]) == submitted


RAISES = """\
import os, sys, time
if os.environ["RANK"] == "3":
    time.sleep(0.5)
    raise KeyError("on purpose")
time.sleep(100)
"""
SEVEN = """\
import os, sys, time
if os.environ["RANK"] == "2":
    sys.exit(7)
time.sleep(100)
"""
WHERE = ["-e", "slurm", "-p", "a3m", "-n", "2", "--ntasks-per-node", "2"]


def test_show_5_a_rank_that_raises_under_torchrun(there: Scene) -> None:
    there.launcher.write("raises.py", RAISES)
    done = there(*WHERE, "-s", "raises.py", "--wait")
    assert done.returncode == 1
    expected = "rank 3 on a3m-1 failed first: exit 1, KeyError: 'on purpose'; 3 others followed"
    assert block(done.stdout)["First failure"] == expected
    assert block(there("status").stdout)["First failure"] == expected
    (task,) = there.status()
    assert "on purpose" in task["failure"]["traceback"] and "raises.py" in task["failure"]["traceback"]


def test_show_5_exit_code_seven_arrives_as_seven_through_torchrun(there: Scene) -> None:
    there.launcher.write("seven.py", SEVEN)
    done = there(*WHERE, "-s", "seven.py", "--wait")
    assert done.returncode == 1
    assert block(done.stdout)["Exit code"] == "7"
    assert "exit code 7" in done.stderr
    (task,) = there.status()
    assert (task["exit_code"], task["failure"]["rank"], task["failure"]["node"]) == (7, 2, "a3m-1")
    assert task["failure"]["followed"] == 3


def test_show_5_exit_code_seven_through_torchrun_here(here: Scene) -> None:
    here.launcher.write("seven.py", SEVEN.replace('"2"', '"1"'))
    done = here("-s", "seven.py", "--ntasks-per-node", "2", "--wait")
    assert done.returncode == 1
    assert block(done.stdout)["Exit code"] == "7"
    (task,) = here.status()
    assert (task["failure"]["rank"], task["failure"]["followed"]) == (1, 1)


def test_n_2_of_a_cluster_type_is_16_processes(there: Scene) -> None:
    """The documented launch: processes, GPUs and a network that this machine does not have."""
    there.launcher.write("who.sh", 'echo "rank $RANK of $WORLD_SIZE, $SLURM_GPUS_ON_NODE GPUs, ${NCCL_NET-no net}"\n')
    asked = ["-e", "slurm", "--slurm-type", "hcc-a3u", "--partition", "a3u", "-s", "who.sh", "-n", "2"]
    done = there(*asked, "--experiment-name", "typed", "--wait", timeout=170)
    assert done.returncode == 0, there.log()
    log = there.log()
    assert {int(rank) for rank in re.findall(r"rank (\d+) of 16, 8 GPUs, no net", log)} == set(range(16)), log
    assert "no network of this cluster type on a3u-0 (looked for /usr/local/gib)" in log
    shown = there("show", "typed", "config")
    assert "name: hcc-a3u" in shown.stdout and "ntasks_per_node: 8" in shown.stdout
