"""Field cases about arguments, environment and secrets (1-8), through run.py on every executor and launcher."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakeScene
from tests.e2e.scene import Scene
from tests.lab import Lab

ENV = {
    "http_proxy": "x",
    "Mixed_Case": "y",
    "SPACE": "a b",
    "DOLLAR": "$1",
    "BACKTICK": "`date`",
    "COMMA": "x,y",
    "DOUBLE": '"',
    "SINGLE": "'",
    "BACKSLASH": "\\",
    "ACCENT": "é",
    "EMPTY": "",
    "NEWLINE": "two\nlines",
    "TRAILING": "end ",
    "GLOB": "*",
    "EQUALS": "a=b=c",
    "OVERRIDE": "% @ * # = , : / 中文",
    "PERCENT": "%j%%A",
}
ARGV = ["a b", "'", '"', "$HOME", "*", "é", "", "--x=1;2", "a\nb", "; touch OWNED", "-e", "%d", "\\"]
OVERRIDES = ["model.name=% @ * # = , : / 中文", "path=a/b:c", "p=100%"]
SECRET = "s3cr3t-$&'"

#: Writes what it got: argv and environment byte for byte.
DUMP = """\
import json, os, sys
def text(b): return os.fsencode(b).decode("latin-1")
got = {"argv": [text(a) for a in sys.argv[2:]], "env": {text(k): text(v) for k, v in os.environ.items()}}
path = sys.argv[1] + "." + os.environ.get("RANK", "0")
with open(path + ".new", "w") as f: json.dump(got, f)
os.rename(path + ".new", path)
"""


@dataclass
class Way:
    """One combination of executor and launcher."""

    words: list[str]
    script: str
    ranks: int
    lab: bool

    @property
    def slow(self) -> bool:
        return "torchrun" in self.words


WAYS = {
    "local, shell": Way(["-e", "local"], "dump.sh", 1, False),
    "local, python": Way(["-e", "local", "--launcher", "none"], "dump.py", 1, False),
    "local, torchrun": Way(["-e", "local", "--launcher", "torchrun"], "dump.py", 1, False),
    "slurm, shell": Way(["-e", "slurm", "-p", "a3m", "--launcher", "none"], "dump.sh", 1, True),
    "slurm, srun, shell": Way(["-e", "slurm", "-p", "a3m", "-n", "2", "--launcher", "srun"], "dump.sh", 2, True),
    "slurm, srun, python": Way(["-e", "slurm", "-p", "a3m", "-n", "2", "--launcher", "srun"], "dump.py", 2, True),
    "slurm, torchrun": Way(["-e", "slurm", "-p", "a3m", "-n", "2", "--launcher", "torchrun"], "dump.py", 2, True),
}


@dataclass
class Got:
    """What the payload saw, and everything that anybody could read meanwhile."""

    scene: Scene
    ranks: list[dict[str, Any]]
    printed: str
    arguments_seen: str
    """Command lines of all processes while it ran."""


def launch(scene: Scene, way: Way) -> Got:
    out = scene.launcher.workspace / "got"
    scene.launcher.write("dump.py", DUMP)
    inline = DUMP.replace("\\", "\\\\")
    shell = f"#!/bin/sh\nexec '{scene.launcher.python}' -c '{inline}' \"$@\"\n"
    scene.launcher.write("dump.sh", shell, 0o755)
    words = [*way.words, "-s", way.script, "--secret", "MINE", "--experiment-name", "args"]
    for name, value in ENV.items():
        words += ["--env", f"{name}={value}"]
    program = ["--", str(out), *ARGV, *OVERRIDES]
    dry = scene(*words, "--dry-run", *program, MINE=SECRET)
    assert dry.returncode == 0, dry.stderr
    with watched_arguments() as seen:
        done = scene(*words, "--wait", *program, MINE=SECRET, timeout=150)
    assert done.returncode == 0, (done.stdout, done.stderr, scene.logs())
    printed = dry.stdout + dry.stderr + done.stdout + done.stderr + json.dumps(scene.status())
    printed += scene("show", "--script", "args").stdout + scene("show", "args").stdout
    ranks = [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(way.ranks)]
    return Got(scene, ranks, printed, "\n".join(seen))


class watched_arguments:
    """Collects the command line of every process of the machine, ten times a second."""

    def __enter__(self) -> set[str]:
        self.seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self.seen

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            for entry in filter(str.isdigit, os.listdir("/proc")):
                try:
                    self.seen.add(Path(f"/proc/{entry}/cmdline").read_bytes().decode("utf-8", "replace"))
                except OSError:
                    continue

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def results(make_scene: MakeScene, slurm: Lab) -> Iterator[dict[str, Future[Got]]]:
    with ThreadPoolExecutor(3) as pool:
        yield {name: pool.submit(launch, make_scene(slurm if w.lab else None), w) for name, w in WAYS.items()}


@pytest.fixture(params=WAYS)
def got(request: pytest.FixtureRequest, results: dict[str, Future[Got]]) -> Got:
    return results[request.param].result()


def latin(text: str) -> str:
    return text.encode().decode("latin-1")


def test_case_01_names_of_variables_arrive_as_typed(got: Got) -> None:
    for rank in got.ranks:
        assert rank["env"]["http_proxy"] == "x"
        assert rank["env"]["Mixed_Case"] == "y"
        assert not {"HTTP_PROXY", "MIXED_CASE", "mixed_case"} & set(rank["env"])


def test_case_02_values_of_variables_arrive_byte_for_byte(got: Got) -> None:
    for rank in got.ranks:
        assert {name: rank["env"].get(name) for name in ENV} == {name: latin(value) for name, value in ENV.items()}


def test_case_03_arguments_arrive_as_they_are_and_nothing_else_ran(got: Got) -> None:
    for rank in got.ranks:
        assert rank["argv"][: len(ARGV)] == [latin(word) for word in ARGV]
    assert list(got.scene.launcher.workspace.rglob("OWNED")) == []


def test_case_04_overrides_arrive_and_stay_in_the_record(got: Got) -> None:
    for rank in got.ranks:
        assert rank["argv"][len(ARGV) :] == [latin(word) for word in OVERRIDES]
    record = json.loads((got.scene.directory() / "task.json").read_text())
    assert record["argv"][2:] == [*ARGV, *OVERRIDES]


TITLES = ["100%j @*#=,:中文", "a;b$(c)'d\"", "%u%x", "%% @ #"]


@pytest.mark.parametrize("title", TITLES)
def test_case_04_folders_with_such_names_work(there: Scene, title: str) -> None:
    words = ["-e", "slurm", "-p", "a3m", "-s", "payload.sh", "--experiment-name", title, "--wait"]
    there.launcher.write("payload.sh", 'echo "said $1"\n', 0o755)
    done = there(*words, "--", title)
    assert done.returncode == 0, (done.stderr, there.logs())
    _the_title_is_kept(there, title)
    (job,) = there.jobs()
    assert there.status()[0]["log"].endswith(f"/{title}/{job}.log")


@pytest.mark.parametrize("title", TITLES)
def test_case_04_folders_with_such_names_work_here(here: Scene, title: str) -> None:
    here.launcher.write("payload.sh", 'echo "said $1"\n', 0o755)
    done = here("-s", "payload.sh", "--experiment-name", title, "--wait", "--", title)
    assert done.returncode == 0, (done.stderr, here.logs())
    _the_title_is_kept(here, title)


def _the_title_is_kept(scene: Scene, title: str) -> None:
    """In the record, in folders, in arguments and wherever it is asked for by name."""
    told = json.loads(scene("status", "--json", title).stdout)
    (record,) = scene.launcher.runs.glob("experiments/*/*/experiment.json")
    assert told["experiment"]["title"] == json.loads(record.read_text())["title"] == title
    assert record.parent.parent.name == title
    assert Path(told["tasks"][0]["log"]).read_text() == f"said {title}\n"
    assert scene("logs", title).stdout == f"said {title}\n"


def test_case_04_a_folder_that_slurm_cannot_log_to_is_refused(there: Scene) -> None:
    """Seen: with a backslash anywhere in its path, the log's %j stays as it is."""
    done = there("-e", "slurm", "-p", "a3m", "-s", "payload.sh", "--experiment-name", "a\\b")
    assert done.returncode == 2
    assert "backslash" in done.stderr and "Traceback" not in done.stderr
    assert there.created() == [] and there.jobs() == {}


def test_case_04_a_title_that_is_no_folder_is_refused(here: Scene) -> None:
    done = here("-s", "payload.sh", "--experiment-name", "a/b")
    assert done.returncode == 2
    assert "'a/b'" in done.stderr and "--experiment-name" in done.stderr
    assert here.created() == []


def test_case_06_a_secret_is_nowhere_but_in_the_job(got: Got) -> None:
    assert all(rank["env"]["MINE"] == SECRET for rank in got.ranks)
    assert SECRET not in got.printed
    assert SECRET not in got.arguments_seen
    for path in got.scene.launcher.runs.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert SECRET.encode() not in path.read_bytes(), path
    lab = got.scene.launcher.lab
    if lab:
        (job,) = got.scene.jobs()
        assert SECRET not in lab.slurm("scontrol", "write", "batch_script", job, "-")
        assert SECRET not in lab.slurm("scontrol", "show", "job", "-dd", job)
        assert SECRET not in lab.slurm("sacct", "-j", job, "-p", "-o", "ALL")


def test_case_06_a_secret_on_a_cluster_whose_accounting_shows_environments(
    make_scene: MakeScene, slurm_jobenv: Lab
) -> None:
    scene = make_scene(slurm_jobenv)
    got = launch(scene, WAYS["slurm, shell"])
    assert got.ranks[0]["env"]["MINE"] == SECRET
    (job,) = scene.jobs()
    assert SECRET not in slurm_jobenv.slurm("sacct", "--env-vars", "-j", job)
    assert not (scene.directory() / "secrets" / "environment").exists()  # gone with the job's end


def test_case_07_nothing_of_a_surrounding_job_reaches_the_new_submission(there: Scene) -> None:
    lab = there.launcher.lab
    assert lab is not None
    out = there.launcher.workspace / "got"
    there.launcher.write("dump.py", DUMP)
    words = ["-e", "slurm", "-p", "a3m", "--launcher", "none", "-s", "dump.py", "--experiment-name", "inner", "--wait"]
    inner = there.launcher.argv(*words, "--", str(out))
    around = {"SLURM_CPU_BIND": "x", "SBATCH_PARTITION": "nowhere", "SLURM_MEM_PER_CPU": "1", "SBATCH_TIMELIMIT": "1"}
    outer = ["sbatch", "--wait", "-p", "a3u", "--mem-per-cpu=1", "-n", "2", "-J", "outer", "-o", "outer.log"]
    done = lab.run_as_user(
        [*outer, "--export=ALL", "--wrap", f"env {' '.join(f'{k}={v}' for k, v in around.items())} {' '.join(inner)}"],
        env=there.launcher.env(),
        cwd=there.launcher.work,
    )
    log = there.launcher.work / "outer.log"
    assert done.returncode == 0, (done.stderr, log.read_text() if log.exists() else "", there.logs())
    (task,) = there.status("inner")
    assert task["state"] == "SUCCEEDED"
    facts = lab.slurm("scontrol", "show", "job", task["job_id"])
    assert "Partition=a3m" in facts and "TimeLimit=01:00:00" in facts and "NumTasks=1" in facts
    assert "MinMemoryCPU=1M" not in facts
    seen = json.loads(Path(f"{out}.0").read_text())["env"]
    assert seen["SLURM_JOB_ID"] == task["job_id"]
    assert seen.get("SLURM_CPU_BIND") != "x"
    assert seen.get("SLURM_MEM_PER_CPU") != "1"
    assert "SBATCH_PARTITION" not in seen


CPUS = '#!/bin/sh\necho "cpus $SLURM_CPUS_PER_TASK $(nproc)"\n'


@pytest.mark.parametrize("launcher", ["srun", "none"])
def test_case_08_cpus_per_task_reaches_the_step(make_scene: MakeScene, slurm_affinity: Lab, launcher: str) -> None:
    """On a cluster that binds: nodes of two processors, so two a task is what can be had."""
    scene = make_scene(slurm_affinity)
    scene.launcher.write("cpus.sh", CPUS, 0o755)
    words = ["-e", "slurm", "-p", "a3m", "-n", "2", "--cpus-per-task", "2", "--launcher", launcher, "-s", "cpus.sh"]
    assert scene(*words, "--wait").returncode == 0, scene.logs()
    lines = [line for line in scene.log().splitlines() if "cpus " in line]
    assert [line.rpartition("cpus ")[2] for line in lines] == ["2 2"] * (2 if launcher == "srun" else 1)


def test_case_08_four_processors_for_each_of_two_tasks(there: Scene) -> None:
    there.launcher.write("cpus.sh", CPUS, 0o755)
    words = ["-e", "slurm", "-p", "a3m", "--ntasks-per-node", "2", "--cpus-per-task", "4", "--launcher", "srun"]
    assert there(*words, "-s", "cpus.sh", "--wait").returncode == 0, there.logs()
    lines = [line.rpartition("cpus ")[2].split()[0] for line in there.log().splitlines() if "cpus " in line]
    assert lines == ["4", "4"]
