"""Field cases about bad requests and submitting (11-13, 15-20, 28, 33), through the front door on real clusters."""

from __future__ import annotations

import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.e2e.scene import Scene, block, names
from tests.faults import Rules

SLURM = ["-e", "slurm", "-p", "a3m"]


def payload(scene: Scene, *more: str) -> list[str]:
    return ["-s", "payload.sh", *more, "--", "payload", str(scene.launcher.workspace / "ran")]


# -- 11: what sbatch prints ----------------------------------------------------------------------------------------


def test_case_11_the_cluster_that_sbatch_names_is_asked_from_then_on(wrapped: Scene) -> None:
    """The lab's own cluster is called ``lab``, so its name can stand for alpha. All is asked there."""
    commands = wrapped.commands
    assert commands is not None
    commands.set("sbatch", Rules(suffix=";lab"))
    go = wrapped.launcher.workspace / "go"
    done = wrapped(*SLURM, *payload(wrapped), str(go))
    (first,) = wrapped.jobs()
    assert block(done.stdout)["Job id"] == first
    assert wrapped(*SLURM, *payload(wrapped, "--again"), str(go)).returncode == 0
    (second,) = set(wrapped.jobs()) - {first}
    ids = wrapped.experiments()
    wrapped.until(lambda tasks: names(tasks) == ["RUNNING"], ids[1])
    assert wrapped("cancel", ids[1]).returncode == 0
    wrapped.until(lambda tasks: names(tasks) == ["RUNNING"], ids[0])
    commands.set("squeue", Rules(silent=True))  # forgotten by the queue, and its own record gone: accounting is left
    go.touch()
    deadline = time.monotonic() + 60
    while wrapped.jobs()[first] != "COMPLETED":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    (folder,) = (
        path for path in wrapped.launcher.runs.glob("experiments/*/*/*") if path.parent.name == ids[0] and path.is_dir()
    )
    for path in (folder / "seen.json", *folder.glob("exit-*.json")):
        path.unlink(missing_ok=True)
    (task,) = wrapped.ended(ids[0])
    assert (task["job_id"], task["cluster"], task["state"]) == (first, "lab", "SUCCEEDED")
    (task,) = wrapped.ended(ids[1])
    assert (task["job_id"], task["cluster"], task["state"]) == (second, "lab", "CANCELLED")
    for name in ("squeue", "sacct", "scancel", "scontrol"):
        about = [
            call.argv for call in commands.calls(name) if {first, second} & set(re.findall(r"\d+", str(call.argv)))
        ]
        assert about or name == "scontrol", name
        for argv in about:
            assert ("-M", "lab") in pairwise(argv) or {"-Mlab", "--clusters=lab"} & set(argv), argv


def test_case_11_an_id_comes_only_from_a_line_that_is_one(wrapped: Scene) -> None:
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", Rules(banner="Last login 12 from 10.0.0.1\n7 jobs of 99\n"))
    done = wrapped(*SLURM, *payload(wrapped))
    assert [block(done.stdout)["Job id"]] == list(wrapped.jobs())


def test_case_11_of_several_numbers_the_one_of_this_script_is_the_id(wrapped: Scene) -> None:
    """A site's wrapper counts something in lines of their own; the first job there is would be another one."""
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", Rules(banner="2\n", trailer="1\n"))
    done = wrapped(*SLURM, "--wait", *payload(wrapped))
    assert done.returncode == 0, done.stderr
    (job,) = wrapped.jobs()
    assert block(done.stdout)["Job id"] == job
    assert [line.split()[1] for line in wrapped.ran()] == [job]


def test_case_11_no_answer_at_all_is_an_error_with_both_streams(wrapped: Scene) -> None:
    """A stand-in that submits nothing, says something odd on both streams, and claims success."""
    assert wrapped.commands is not None
    sbatch = wrapped.commands.directory / "sbatch"
    sbatch.write_text("#!/bin/sh\necho out of order\necho and more >&2\n")
    done = wrapped(*SLURM, *payload(wrapped))
    assert done.returncode == 3
    assert "out of order" in done.stderr and "and more" in done.stderr and "Traceback" not in done.stderr
    assert wrapped.experiments() == []


# -- 12, 13 --------------------------------------------------------------------------------------------------------

TWO = """
import sys
import nemo_launch as nl
with nl.Experiment("two") as exp:
    ran = {ran!r}
    exp.add(nl.Script("payload.sh", args=["a", ran, "60"]), nl.SlurmExecutor(partition="a3m"), name="a")
    exp.add(nl.Script("payload.sh", args=["b", ran]), nl.SlurmExecutor(partition="a3m", {bad}), name="b")
    try:
        exp.run(detach=True)
    except nl.LaunchError as error:
        print(error)
        sys.exit(error.exit_code)
"""


def test_case_12_the_first_of_two_submissions_stays_and_can_be_cancelled(there: Scene) -> None:
    ran = str(there.launcher.workspace / "ran")
    done = there.run_python(TWO.format(ran=ran, bad='nodelist="no-such-node"'))
    assert done.returncode == 3, done.stderr
    assert "sbatch refused b" in done.stdout and "nvalid node name" in done.stdout
    (job,) = there.jobs()
    tasks = there.status("two")
    assert names(tasks, "name") == ["a", "b"]
    assert names(tasks, "job_id") == [job, None]
    assert tasks[1]["state"] == "UNSUBMITTED" and "nvalid node name" in tasks[1]["reason"]
    assert there("cancel", "two", timeout=60).returncode == 0
    assert there.status("two")[0]["state"] == "CANCELLED"


def test_case_13_a_launcher_killed_before_the_id_was_written(wrapped: Scene) -> None:
    """More of this kind: test_killed_launcher.py."""
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", after=1, held=1)
    assert wrapped.killed(wrapped.start(*SLURM, *payload(wrapped)), wrapped.commands.returned("sbatch"))
    (task,) = wrapped.status()
    assert [task["job_id"]] == list(wrapped.jobs())
    assert wrapped(*SLURM, *payload(wrapped)).returncode == 0
    wrapped.ended()
    assert len(wrapped.jobs()) == len(wrapped.ran()) == 1


# -- 15: mpi --------------------------------------------------------------------------------------------------------

PROFILES = """\
base: {executor: slurm, partition: a3m, nodes: 2, mpi: pmix_v99}
site: {extends: base, mpi: null}
"""


def test_case_15_a_kind_of_mpi_that_the_site_lacks_is_named_and_can_be_taken_back(there: Scene) -> None:
    there.launcher.write("profiles.yaml", PROFILES)
    failed = there("-e", "base", "--wait", *payload(there))
    assert failed.returncode == 1
    assert "- Known failure: mpi-plugin" in failed.stdout and "`mpi: null`" in failed.stdout
    assert there("-e", "site", "--wait", *payload(there)).returncode == 0, there.logs()
    assert len(there.ran()) == 2  # ranks


# -- 16-19: bad requests -------------------------------------------------------------------------------------------


def test_case_16_the_folder_of_the_log_is_made_first(there: Scene) -> None:
    home = there.launcher.runs / "not" / "there" / "yet"
    done = there(*SLURM, *payload(there, "--log-dir", "logs/of/it", "--wait"), NEMORUN_HOME=str(home))
    assert done.returncode == 0, done.stderr
    (log,) = home.glob("experiments/*/*/*/[0-9]*.log")
    assert log.is_file()


@pytest.mark.parametrize("flag", ["--log-dir", "--job-dir"])
def test_case_16_a_job_id_in_the_name_of_a_folder_is_refused(there: Scene, flag: str) -> None:
    done = there(*SLURM, *payload(there, flag, str(there.launcher.workspace / "logs-%j" / "x")))
    assert done.returncode == 2
    assert "%j" in done.stderr and flag in done.stderr
    assert there.created() == [] and there.jobs() == {}


def test_case_17_all_problems_are_named_at_once(there: Scene) -> None:
    there.launcher.write("more.yaml", "nodse: 2\n")
    done = there(*SLURM, "-s", "missing.py", "--time", "0:240:0", "--config", "more.yaml", "--tiem", "5")
    assert done.returncode == 2
    for words in ("missing.py", "0:240:0", "nodse", "nodes", "--tiem", "--time"):
        assert words in done.stderr, words
    assert "Traceback" not in done.stderr
    assert there.created() == [] and there.jobs() == {}


TIMES = {"10": "10:00", "4:00": "4:00", "1:00:00": "1:00:00", "2-12": "2-12:00:00", "1-02:03:04": "1-02:03:04"}
SECONDS = {"10": 600, "4:00": 240, "1:00:00": 3600, "2-12": 216000, "1-02:03:04": 93784}


def seconds(text: str) -> int:
    """As squeue prints a limit."""
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    hours, minutes, rest = [0] * (3 - len(parts)) + parts
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def test_case_18_durations_mean_what_slurm_means_by_them(there: Scene) -> None:
    """What the product renders is given to the real sbatch, which rounds up to minutes."""
    lab = there.launcher.lab
    assert lab is not None
    for text, expected in SECONDS.items():
        done = there(*SLURM, *payload(there, "--time", text, "--dry-run"))
        (limit,) = re.findall(r"^#SBATCH --time=(\S+)$", done.stdout, re.MULTILINE)
        argv = ["sbatch", "--parsable", "--hold", "-o", "/dev/null", f"--time={limit}", "--wrap", "true"]
        job = lab.run_as_user(argv, cwd=there.launcher.work).stdout.strip()
        shown = lab.slurm("squeue", "-h", "-j", job, "-o", "%l")
        lab.scancel(job)
        assert seconds(shown) == -(-expected // 60) * 60, (text, limit, shown)


def test_case_18_a_timedelta_is_a_duration_too(there: Scene) -> None:
    text = (
        "from datetime import timedelta; import nemo_launch as nl\n"
        f"print(nl.SlurmExecutor(time={timedelta(hours=1)!r}.__class__(hours=1)).config.time.seconds)"
    ).replace("datetime.timedelta(seconds=3600).__class__", "timedelta")
    assert there.run_python(text).stdout.strip() == "3600"


def test_case_18_what_is_no_duration_is_refused_with_the_forms_that_are(there: Scene) -> None:
    done = there(*SLURM, *payload(there, "--time", "0:240:0"))
    assert done.returncode == 2
    assert "0:240:0" in done.stderr and "--time" in done.stderr and "HH:MM:SS" in done.stderr
    assert there.created() == []


def test_case_19_two_ways_to_ask_for_memory_exclude_each_other(there: Scene) -> None:
    there.launcher.write("mem.yaml", "mem_per_cpu: 1G\n")
    done = there(*SLURM, *payload(there, "--config", "mem.yaml", "--mem", "64G"))
    assert done.returncode == 2
    assert "mem_per_cpu" in done.stderr and "mem" in done.stderr and "Traceback" not in done.stderr
    assert there.created() == [] and there.jobs() == {}


# -- 20: at once ---------------------------------------------------------------------------------------------------


def test_case_20_eight_launches_of_one_title_are_eight_experiments(there: Scene) -> None:
    words = [*SLURM, *payload(there, "--experiment-name", "same", "--detach")]
    started = [there.start(*words, stdout=subprocess.PIPE) for _ in range(8)]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 8
    ids = {text.split("\n", 1)[0] for text in said}
    folders = {block(text)["Local Directory"] for text in said}
    assert len(ids) == len(folders) == len(there.experiments()) == 8
    assert len({block(text)["Job id"] for text in said}) == 8
    for experiment in there.experiments():
        assert names(there.ended(experiment)) == ["SUCCEEDED"]
    assert len(there.ran()) == 8


# -- 28: cancel right after ----------------------------------------------------------------------------------------


def test_case_28_cancelled_right_after_it_was_submitted(there: Scene) -> None:
    done = there(*SLURM, "-s", "payload.sh", "--", "p", str(there.launcher.workspace / "ran"), "100")
    assert done.returncode == 0
    ended = there("cancel", "payload")
    assert "- Status: CANCELLED" in ended.stdout, ended.stderr
    assert set(there.jobs().values()) <= {"CANCELLED", "COMPLETING"}
    assert names(there.status()) == ["CANCELLED"]


def test_case_28_cancelled_while_the_scheduler_does_not_show_it_yet(wrapped: Scene) -> None:
    """The launcher died, its sbatch is still on its way: whatever comes of it runs nothing."""
    assert wrapped.commands is not None
    wrapped.commands.set("sbatch", before=1, held=1)
    words = [*SLURM, "-s", "payload.sh", "--", "p", str(wrapped.launcher.workspace / "ran"), "100"]
    assert wrapped.killed(wrapped.start(*words), wrapped.commands.entered("sbatch"), release=False)
    cancel = wrapped.start("cancel", "payload", stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (wrapped.directory() / "cancelled").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    wrapped.commands.release()
    said, _ = cancel.communicate(timeout=120)
    assert "- Status: CANCELLED" in said
    deadline = time.monotonic() + 90
    while not wrapped.jobs() or set(wrapped.jobs().values()) & {"PENDING", "RUNNING", "COMPLETING"}:
        assert time.monotonic() < deadline, wrapped.jobs()
        time.sleep(0.3)
    assert wrapped.ran() == []
    assert names(wrapped.status()) == ["CANCELLED"]


# -- 33: ports -----------------------------------------------------------------------------------------------------

#: Rank 0 serves a store of its own on the port; the first job ends when all eight run, the others outlive it.
MEET = """\
import glob, os, socket, sys, time
address, rank = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), os.environ["RANK"]
folder, first = sys.argv[1], sys.argv[2] == "0"
if rank == "0":
    server = socket.create_server(("", address[1]))
    open(f"{folder}/up-{address[1]}-{os.environ['SLURMD_NODENAME']}", "w").close()
    client, _ = server.accept()
    while len(glob.glob(f"{folder}/up-*")) < 8 or not (first or os.path.exists(f"{folder}/first-is-over")):
        time.sleep(0.1)
    client.sendall(os.environ["NEMO_LAUNCH_JOB_ID"].encode())
else:
    while True:
        try:
            client = socket.create_connection(("127.0.0.1", address[1]))
            break
        except OSError:
            time.sleep(0.1)
    mine = client.recv(100).decode()
    assert mine == os.environ["NEMO_LAUNCH_JOB_ID"], f"met the store of job {mine}"
    print("port", address[1], "of", mine, flush=True)
"""


def test_case_33_eight_jobs_with_the_default_port_on_one_node(there: Scene) -> None:
    lab = there.launcher.lab
    assert lab is not None
    there.launcher.write("meet.py", MEET)
    there.launcher.write("node.yaml", "nodelist: a3u-1\n")
    folder = there.launcher.user.make_dir(there.launcher.workspace / "up")
    node = ["-e", "slurm", "-p", "a3u", "--config", "node.yaml", "--ntasks-per-node", "2", "--cpus-per-task", "1"]
    words = [*node, "--launcher", "srun", "--sbatch-arg=--hold", "-s", "meet.py"]

    def launch(number: int) -> tuple[int, str]:
        done = there(*words, "--experiment-name", f"meet{number}", "--", str(folder), str(number))
        return done.returncode, done.stderr

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(launch, range(8))) == [(0, "")] * 8
    lab.slurm("scontrol", "release", ",".join(there.jobs()))  # all at once
    assert names(there.ended("meet0", timeout=180)) == ["SUCCEEDED"], there.logs()
    assert [names(there.status(f"meet{number}")) for number in range(1, 8)] == [["RUNNING"]] * 7
    (folder / "first-is-over").touch()
    for number in range(1, 8):
        assert names(there.ended(f"meet{number}")) == ["SUCCEEDED"], there.logs()
    up = [path.name.split("-", 2)[1:] for path in folder.glob("up-*")]
    assert {node for _, node in up} == {"a3u-1"}
    found = re.findall(r"port (\d+) of (\d+)", there.logs())
    assert sorted(job for _, job in found) == sorted(there.jobs())
    assert len(found) == len({port for port, _ in found}) == 8
    assert {port for port, _ in found} == {port for port, _ in up}
