"""Field case 36: a job sees the tree as it was when it was submitted."""

from __future__ import annotations

import json
import subprocess

from tests.e2e.scene import Scene, names

TREE = """\
import json, os, sys
from pathlib import Path
import helper, untracked
here = Path(__file__).resolve().parent
seen = {"helper": helper.WORD, "untracked": untracked.WORD, "ignored": (here / "ignored.bin").exists()}
seen["committed"] = (here / "committed.txt").read_text()
seen["cwd"] = os.getcwd()
Path(sys.argv[1] + ".new").write_text(json.dumps(seen))
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


def test_case_36_the_job_sees_the_tree_as_it_was_at_submit(there: Scene) -> None:
    launcher, lab = there.launcher, there.launcher.lab
    assert lab is not None

    def git(*words: str) -> str:
        argv = [*launcher.prefix, "git", "-c", "user.name=u", "-c", "user.email=u@example.org", *words]
        done = subprocess.run(argv, cwd=launcher.work, env=launcher.env(), check=True, capture_output=True, text=True)
        return done.stdout.strip()

    launcher.write("train.py", TREE)
    launcher.write("helper.py", 'WORD = "committed"\n')
    launcher.write("committed.txt", "as committed")
    launcher.write(".gitignore", "*.bin\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    launcher.write("helper.py", 'WORD = "dirty"\n')
    launcher.write("untracked.py", 'WORD = "untracked"\n')
    launcher.write("ignored.bin", "not part of it")

    out = launcher.workspace / "seen"
    words = ["-e", "slurm", "-p", "a3m", "--launcher", "none", "--sbatch-arg=--hold", "-s", "train.py"]
    done = there(*words, "--", str(out))
    assert done.returncode == 0, done.stderr
    launcher.write("helper.py", 'WORD = "edited later"\n')
    launcher.write("committed.txt", "edited later")
    (launcher.work / "untracked.py").unlink()
    (job,) = there.jobs()
    lab.slurm("scontrol", "release", job)
    assert names(there.ended()) == ["SUCCEEDED"], there.log()
    seen = json.loads(out.read_text())
    assert seen == {
        "helper": "dirty",
        "untracked": "untracked",
        "ignored": False,
        "committed": "as committed",
        "cwd": str(launcher.work),
    }
    record = json.loads((there.directory() / "task.json").read_text())
    (code,) = [code for code in record["code"] if code["root"] == str(launcher.work)]
    assert code["commit"] == git("rev-parse", "HEAD")
    assert code["dirty"] == 2 or code["dirty"] == 3  # helper.py, untracked.py, and the payload that every scene has
