"""``--dry-run`` shows the very script that would be submitted, and leaves no file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.conftest import Cli


def test_the_script_is_the_one_that_is_submitted_given_the_same_id(cli: Cli) -> None:
    script = cli.script("a.sh", "true\n")
    words = ["-s", script, "--env", "A=é 'x'", "--time", "10", "--", "$HOME", "it's"]
    dry = cli(*words[:6], "--dry-run", *words[6:])
    assert (dry.code, cli.created()) == (0, [])
    document = json.loads(cli(*words[:6], "--dry-run", "--json", *words[6:]).out)
    assert cli.created() == []
    [task] = document["tasks"]
    real = json.loads(cli(*words[:6], "--json", *words[6:]).out)
    submitted = Path(real["tasks"][0]["directory"], "job.sh").read_text()
    assert task["script"].replace(document["experiment"]["id"], real["experiment"]["id"]) == submitted


def test_the_script_stands_in_the_output_byte_for_byte(cli: Cli) -> None:
    done = cli("-s", cli.script("a.sh", "true\n"), "--dry-run", "--", "\udcff", LC_ALL="C", PYTHONCOERCECLOCALE="0")
    before, count, path, rest = re.split(r"^# ---- the next (\d+) lines are (.*) ----\n", done.out, flags=re.MULTILINE)
    lines = rest.splitlines(keepends=True)
    inside, after = "".join(lines[: int(count)]), "".join(lines[int(count) :])
    assert inside.startswith("#!/bin/bash\n")
    assert "\udcff" in inside
    assert after == f"\n# ---- that were the {count} lines of {path} ----\n"
    outside = before + after
    assert all(line.startswith("#") for line in outside.splitlines() if line)


def test_a_dry_run_refuses_what_a_launch_refuses(cli: Cli) -> None:
    done = cli("-s", "nothere.py", "--dry-run")
    assert (done.code, done.out, cli.created()) == (2, "", [])


def test_a_dry_run_on_slurm_needs_no_queue(cli: Cli, tmp_path: Path) -> None:
    # the scheduler is only asked what it offers; nothing is submitted
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sbatch", "squeue", "scontrol", "sinfo", "sacct", "scancel", "srun"):
        (tools / name).write_text(f'#!/bin/sh\n[ "$*" = --version ] || echo "{name} $*" >> {tmp_path}/calls\n')
        (tools / name).chmod(0o755)
    done = cli(
        "-e", "slurm", "-s", cli.script("a.sh", "true\n"), "-n", "2", "--dry-run", PATH=f"{tools}:{cli.env['PATH']}"
    )
    assert done.code == 0, done
    assert "#SBATCH --nodes=2\n" in done.out
    assert "#SBATCH --partition=general\n" in done.out
    assert cli.created() == []
    calls = (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""
    assert "sbatch" not in calls


def test_a_dry_run_says_which_values_are_the_presets(cli: Cli, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sbatch", "squeue", "scontrol", "sinfo", "sacct", "scancel", "srun"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    words = ["-e", "slurm", "--slurm-type", "hcc-a3m", "-s", cli.script("a.sh", "true\n"), "-n", "2", "--mem", "64G"]
    done = cli(*words, "--dry-run", PATH=f"{tools}:{cli.env['PATH']}")
    assert done.code == 0, done
    for option in ("--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=8", "--mem=64G", "--exclusive"):
        assert f"#SBATCH {option}\n" in done.out
    (note,) = [line for line in done.out.splitlines() if line.startswith("# Note: from the preset hcc-a3m ")]
    assert note.endswith(": gpus_per_node=8, ntasks_per_node=8, exclusive=true; the network tcpxo, where a node has it")


def test_a_cluster_type_that_does_not_exist_is_refused(cli: Cli) -> None:
    done = cli("-e", "slurm", "--slurm-type", "hcc-a3n", "-s", cli.script("a.sh", "true\n"), "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert "--slurm-type: there is no preset 'hcc-a3n'. Did you mean hcc-a3" in done.err
