"""On the real cluster: what the conformance suite does not ask because it is Slurm's alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from nemo_launch.errors import SchedulerRefused, Unreachable
from nemo_launch.executors.base import Handle, Recovery, State
from nemo_launch.executors.slurm import poll as polling
from nemo_launch.executors.slurm.submit import write_files
from nemo_launch.experiments import ledger
from nemo_launch.experiments.observing import observe
from tests.conformance.site import Run, Site
from tests.executors.slurm.conftest import WAIT, Counting, ask, go
from tests.faults.wrappers import Rules, WrappedCommands
from tests.lab import Lab

# -- the script ---------------------------------------------------------------------------------------------------


def test_folders_with_strange_names(site: Site) -> None:
    site.folder = site.folder / 'it\'s a $HOME; 50%j #1 "é"\t(x) `y` ~ &'
    site.folder.mkdir()
    run = site.launch(site.task("strange", "#!/bin/sh\npwd\n"))
    assert run.wait()["strange"].state is State.SUCCEEDED
    assert run.log("strange").rstrip("\n") == str(site.folder)


def test_nodes_see_what_was_asked_for(site: Site) -> None:
    text = "#!/bin/sh\necho $SLURM_PROCID $SLURM_JOB_NUM_NODES $SLURM_CPUS_PER_TASK $WORLD_SIZE $MASTER_PORT\n"
    run = site.launch(
        site.task("ranks", text), nodes=2, ntasks_per_node=2, cpus_per_task=3, time="5:00", partition="a3u",
        sbatch_args=["--nice=7"],
    )  # fmt: skip
    assert run.wait()["ranks"].state is State.SUCCEEDED
    lines = sorted(line.split("] ")[1] for line in run.log("ranks").splitlines() if line.startswith("["))
    moved = re.findall(r"port 13742 is taken on \S+: using (\d+)", run.log("ranks"))  # by whoever else tests here
    assert lines == [f"{rank} 2 3 4 {(moved or ['13742'])[0]}" for rank in range(4)]
    (job,) = run.jobs()
    shown = ask("scontrol", "show", "job", str(job.handle))
    for part in ("TimeLimit=00:05:00", "Partition=a3u", "Nice=7", "Requeue=0", f"Comment={job.paths.script}"):
        assert part in shown


def test_options_of_sbatch_in_the_environment_of_the_processes(site: Site) -> None:
    text = '#!/bin/sh\necho "$SBATCH_PARTITION" "$SRUN_DEBUG" "$SLURM_NTASKS"\n'
    run = site.launch(
        site.task("told", text), env_vars={"SBATCH_PARTITION": "nowhere", "SRUN_DEBUG": "x y", "SLURM_NTASKS": "77"}
    )
    assert run.wait()["told"].state is State.SUCCEEDED
    assert run.log("told").splitlines()[-1] == "nowhere x y 77"


def test_folders_for_logs_and_caches_are_made_where_the_job_runs(site: Site) -> None:
    logs, cache = site.folder / "new" / "logs", site.folder / "new" / "cache"
    text = '#!/bin/sh\n[ -d "$NEMO_LAUNCH_LOG_DIR" ] && [ -d "$HF_HOME" ] && [ -d "$TORCH_HOME" ] && echo all\n'
    run = site.launch(site.task("dirs", text), log_dir=str(logs), cache_dir=str(cache))
    assert run.wait()["dirs"].state is State.SUCCEEDED
    assert run.log("dirs").split() == ["all"] and logs.is_dir() and cache.is_dir()


def test_another_path_for_the_job_does_not_hide_sbatch(site: Site) -> None:
    run = site.launch(site.task("path", '#!/bin/sh\necho "$PATH"\n', env={"PATH": "/opt/mine:/usr/bin:/bin"}))
    run.wait()
    assert run.log("path").startswith("/opt/mine:/usr/bin")


def test_a_folder_for_the_jobs_own_files(site: Site, tmp_path: Path) -> None:
    """The record lies where no node sees it."""
    run = site.prepare(site.task("a", "#!/bin/sh\nexit 7\n"), job_dir=str(site.folder / "jobs"))
    (plan,) = run.plans
    where = plan.paths._replace(dir=str(tmp_path / "a"), job_dir=str(site.folder / "jobs" / "suite" / "suite_0" / "a"))
    (tmp_path / "a").mkdir()
    run.plans[0] = run.executor.plan(plan.task, where)
    assert run.submit().wait()["a"].exit_code == 7
    (job,) = run.jobs()
    assert Path(job.paths.log(str(job.handle))).parent == Path(where.job_dir)
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"intent.json", "handle.json"}


# -- submission ---------------------------------------------------------------------------------------------------


def test_jobs_outside_the_experiment_come_first(site: Site) -> None:
    first = site.launch(site.task("first", "#!/bin/sh\nsleep 2\necho first >>order\n"))
    (before,) = first.jobs()
    later = site.launch(
        site.task("second", "#!/bin/sh\necho second >>order\n"),
        site.task("third", "#!/bin/sh\necho third >>order\n", after=["second"]),
        dependency=f"afterok:{before.handle},singleton",
    )
    assert later.plans[0].command[2] == f"--dependency=afterok:{before.handle},singleton"
    assert later.poll()["second"].state is State.PENDING
    assert {o.state for o in later.wait().values()} == {State.SUCCEEDED}
    assert (site.folder / "order").read_text().split() == ["first", "second", "third"]


def test_a_job_that_waits_for_a_failed_one_is_skipped_and_not_left_in_the_queue(site: Site) -> None:
    failed = site.launch(site.task("fails", "#!/bin/sh\nexit 3\n"))
    assert failed.wait()["fails"].state is State.FAILED
    (before,) = failed.jobs()
    run = site.launch(site.task("never", WAIT), dependency=f"afterok:{before.handle}")
    seen = run.wait()["never"]
    assert (seen.state, seen.skipped) == (State.CANCELLED, True)
    assert "a job that it depends on did not succeed" in seen.reason
    (job,) = run.jobs()
    assert str(job.handle) not in ask("squeue", "-h", "--me", "-t", "PENDING", "-o", "%i").split()


def test_what_slurm_refuses_is_told_in_its_words_and_leaves_no_intent(site: Site) -> None:
    tasks = [site.task("a", WAIT), site.task("b", WAIT, after=["a"]), site.task("c", WAIT), site.task("d", WAIT)]
    run = site.prepare(*tasks)
    run.plans[2] = run.plans[2]._replace(script=run.plans[2].script.replace("--nodes=1", "--nodes=77"))
    with pytest.raises(SchedulerRefused, match="sbatch refused c: .*(More processors|Node count)"):
        run.submit()
    assert [job.handle is not None for job in run.jobs()] == [True, True, False, False]
    assert [job.intended is not None for job in run.jobs()] == [True, True, False, False], "d was never tried"
    assert {o.state for o in run.cancel("a", "b").values()} == {State.CANCELLED}


def test_more_nodes_than_there_are(site: Site) -> None:
    run = site.prepare(site.task("a", "#!/bin/sh\n"), nodes=3, partition="a3m")
    with pytest.raises(SchedulerRefused, match=r"Node count specification invalid\. The partition has fewer nodes"):
        run.submit()


def test_an_unknown_partition_is_refused_with_the_real_ones(site: Site) -> None:
    executor = site.make(partition="general", time="1:00:00")
    (problem,) = executor.check([site.task("a", WAIT)])
    assert (
        "general" in problem.what and "a3m (up, default), a3u (up)" in problem.fix and "--partition a3m" in problem.fix
    )
    run = site.prepare(site.task("b", WAIT))
    run.plans[0] = run.plans[0]._replace(
        script=run.plans[0].script.replace("#SBATCH --nodes", "#SBATCH -p x\n#SBATCH --nodes")
    )
    with pytest.raises(SchedulerRefused, match=r"invalid partition specified: x.*a3m \(up, default\)"):
        run.submit()


@pytest.mark.parametrize(
    ("rules", "cluster"),
    [
        (Rules(banner="Last login 12\n17 jobs are waiting\n\n"), None),
        (Rules(suffix=";lab"), "lab"),
    ],
)
def test_ids_between_other_words(site: Site, wrapped: WrappedCommands, rules: Rules, cluster: str | None) -> None:
    wrapped.set("sbatch", rules)
    run = site.launch(site.task("id", "#!/bin/sh\nexit 7\n"))
    (job,) = run.jobs()
    assert job.handle is not None and job.handle.cluster == cluster
    assert run.wait()["id"].exit_code == 7
    asked = [call.argv for name in ("squeue", "sacct") for call in wrapped.calls(name)]
    assert asked and all(("-M" in argv) == (cluster is not None) for argv in asked)


@pytest.mark.parametrize("rules", [Rules(silent=True), Rules(fail_first=1)], ids=["no words", "answer lost"])
def test_a_lost_answer_is_no_lost_job(site: Site, wrapped: WrappedCommands, rules: Rules) -> None:
    wrapped.set("sbatch", rules)
    run = site.launch(site.task("once", WAIT))
    (job,) = run.jobs()
    assert job.handle is not None
    mine = ask("squeue", "-h", "--me", "-o", "%i %o").splitlines()
    assert [line.split()[0] for line in mine if line.endswith(job.paths.script)] == [str(job.handle)]
    go(site)
    run.wait()


@pytest.mark.parametrize(
    "error",
    [
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    ],
)
def test_a_controller_that_was_not_reached_leaves_nothing(site: Site, wrapped: WrappedCommands, error: str) -> None:
    wrapped.set("sbatch", Rules(refuse_first=1, error=error))
    run = site.prepare(site.task("later", "#!/bin/sh\n"))
    with pytest.raises(Unreachable, match="was not submitted"):
        run.submit()
    assert run.jobs()[0].intended is None
    assert run.submit().wait()["later"].state is State.SUCCEEDED


def test_a_controller_that_is_down(site: Site, slurm: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    run = site.launch(site.task("before", WAIT))
    run.until_running("before")
    down = site.folder / "slurm.conf"
    down.write_text(re.sub(r"(?m)^SlurmctldPort=.*", "SlurmctldPort=7799\nMessageTimeout=3", slurm.conf.read_text()))
    monkeypatch.setenv("SLURM_CONF", str(down))
    seen = run.poll()["before"]
    assert seen.state is State.RUNNING and seen.age is not None and "Unable to contact" in seen.reason
    (job,) = run.jobs()
    lost = job._replace(handle=None, paths=job.paths._replace(job_dir=str(site.folder / "elsewhere")))
    assert run.executor.recover([lost]) == {lost.key: Recovery.IN_FLIGHT}
    later = site.prepare(site.task("later", "#!/bin/sh\n"))
    with pytest.raises(Unreachable, match="Unable to contact slurm controller"):
        later.submit()
    assert later.jobs()[0].intended is None
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    go(site)
    run.wait()


def test_a_predecessor_that_has_ended_is_not_waited_for(site: Site) -> None:
    run = site.prepare(
        site.task("good", "#!/bin/sh\n"), site.task("bad", "#!/bin/sh\nexit 3\n"),
        site.task("next", "#!/bin/sh\n", after=["good"]), site.task("never", "#!/bin/sh\n", after=["bad"]),
    )  # fmt: skip
    first, rest = run.plans[:2], run.plans[2:]
    run.executor.submit(first, run.book)
    run.until(lambda seen: seen["good"].state.final and seen["bad"].state.final)
    with pytest.raises(SchedulerRefused, match="bad, which it depends on, has FAILED"):
        run.executor.submit(rest, run.book)
    (job,) = run.jobs("next")
    assert "Dependency=(null)" in ask("scontrol", "show", "job", str(job.handle))
    assert run.executor.poll([job])[job.key].state is not State.CANCELLED


# -- finding again ------------------------------------------------------------------------------------------------


def test_a_submission_that_still_runs_is_in_flight_and_then_found(site: Site, wrapped: WrappedCommands) -> None:
    wrapped.set("sbatch", Rules(before=0.1, held=1))
    run = site.prepare(site.task("slow", WAIT))
    (plan,) = run.plans
    write_files(run.executor.transport, plan, None)  # all of them: without its runner the job would end at once
    run.book.intend(plan)
    sbatch = subprocess.Popen(plan.command, stdout=subprocess.DEVNULL)
    (job,) = run.jobs()
    deadline = time.monotonic() + 90
    while not wrapped.entered("sbatch")():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    answer: Handle | Recovery | None = run.executor.recover([job])[job.key]
    assert answer is Recovery.IN_FLIGHT
    wrapped.release()
    while answer is Recovery.IN_FLIGHT:
        answer = run.executor.recover([job])[job.key]
        assert time.monotonic() < deadline + 90
    sbatch.wait()
    assert isinstance(answer, Handle)
    run.book.submitted(plan, answer)
    assert run.cancel()["slow"].state is State.CANCELLED


def test_many_lost_ids_cost_one_question(site: Site, transport: Counting) -> None:
    run = site.launch(*(site.task(f"t{n}", WAIT) for n in range(4)))
    handles = {job.key: job.handle for job in run.jobs()}
    for job in run.jobs():
        os.unlink(job.paths.handle)
    transport.programs()
    assert run.executor.recover(run.jobs()) == handles
    assert transport.programs().count("squeue") <= 1
    for plan in run.plans:
        run.book.submitted(plan, handles[plan.paths.dir])  # type: ignore[arg-type]
    go(site)
    run.wait()


# -- status -------------------------------------------------------------------------------------------------------


def test_questions_are_few(site: Site, transport: Counting) -> None:
    run = site.launch(*(site.task(f"t{n}", f"#!/bin/sh\nexit {n % 2}\n") for n in range(6)))
    transport.programs()
    run.poll()
    assert transport.programs().count("squeue") == 1
    run.wait()
    transport.programs()
    run.poll()
    assert transport.programs() == []  # all that is final is known


def test_status_where_the_environment_would_change_the_answers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = site.launch(site.task("env", WAIT))
    for name, value in {
        "SQUEUE_STATES": "CD", "SQUEUE_FORMAT": "%i", "SQUEUE_SORT": "-i", "SACCT_FORMAT": "JobID",
        "SLURM_TIME_FORMAT": "relative", "SLURM_CLUSTERS": "nowhere", "SINFO_FORMAT": "%i",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    run.until_running("env")
    go(site)
    assert run.wait()["env"].state is State.SUCCEEDED


def test_a_silent_controller(site: Site, wrapped: WrappedCommands) -> None:
    run = site.launch(site.task("away", WAIT))
    run.until_running("away")
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    for name in ("squeue", "sacct"):
        wrapped.set(name, Rules(refuse_first=10**6, error=away))
    seen = run.poll()["away"]
    assert seen.state is State.RUNNING and seen.age is not None and "connect failure" in seen.reason
    go(site)
    seen = run.until(lambda seen: seen["away"].state.final)["away"]  # its own record is enough
    assert seen.state is State.SUCCEEDED and seen.age is None


def test_the_queue_forgot_it_and_accounting_does_not_know_it_yet(site: Site, wrapped: WrappedCommands) -> None:
    run = site.launch(site.task("lag", WAIT))
    run.until_running("lag")
    wrapped.set("squeue", Rules(silent=True))
    wrapped.set("sacct", Rules(silent=True))
    seen = run.poll()["lag"]
    assert seen.state is State.RUNNING and seen.age is not None and "not yet in accounting" in seen.reason
    for name in ("squeue", "sacct"):
        wrapped.set(name)
    assert run.poll()["lag"].age is None
    go(site)
    run.wait()


def test_an_id_of_another_job_is_not_believed(site: Site) -> None:
    run = site.launch(site.task("ours", WAIT))
    other = ask("sbatch", "--parsable", "--mem=10", "-o", "/dev/null", "--wrap", "sleep 1")
    (job,) = run.jobs()
    strange = job._replace(handle=Handle(other), intended=time.time())
    seen = polling.poll(run.executor.transport, [strange])[job.key]
    assert seen.extra.get("job_id") == str(job.handle) or seen.age is not None  # the claim, or nothing fresh
    go(site)
    run.wait()


def test_of_two_jobs_for_one_submission_the_owner_counts(site: Site) -> None:
    run = site.launch(site.task("double", WAIT))
    run.until_running("double")
    (job,) = run.jobs()
    second = ask(*run.plans[0].command)
    duplicate = job._replace(handle=Handle(second))
    site_log = Path(job.paths.log(second))
    deadline = time.monotonic() + 60
    while not (site_log.exists() and "duplicate of" in site_log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    seen = run.executor.poll([duplicate])[job.key]
    assert seen.state is State.RUNNING and seen.extra["job_id"] == str(job.handle)
    ledger.write_handle(job.paths, Handle(second))
    (status,) = observe([(duplicate, run.executor)])
    assert status.job.handle == job.handle == run.jobs()[0].handle, "the record is put right"
    go(site)
    assert run.wait()["double"].state is State.SUCCEEDED
    assert run.executor.poll([duplicate])[job.key].state is State.SUCCEEDED


@pytest.mark.parametrize("made", [False, True], ids=["missing", "made by Slurm"])  # the latter since 24.11
def test_a_folder_that_the_nodes_do_not_see_is_explained(site: Site, made: bool) -> None:
    run = site.prepare(site.task("hidden", "#!/bin/sh\n"))
    where = run.plans[0].paths.job_dir
    gone = f"{where}-on-the-nodes"
    if made:
        Path(gone).mkdir(parents=True)
    run.plans[0] = run.plans[0]._replace(script=run.plans[0].script.replace(f"={where}", f"={gone}"))
    seen = run.submit().wait()["hidden"]
    assert seen.state is State.FAILED and "job_dir" in seen.reason


# -- logs ---------------------------------------------------------------------------------------------------------


def test_a_very_long_line_of_every_rank(site: Site) -> None:
    text = "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\000' A; echo; echo after\n"
    run = site.launch(site.task("long", text), ntasks_per_node=2)
    assert run.wait()["long"].state is State.SUCCEEDED
    ranks = list(Path(run.where("long").job_dir).glob("ranks-*/rank-?.log"))
    assert [len(path.read_bytes()) for path in ranks] == [3_000_007] * 2
    log = run.log("long")
    assert (log.count("A"), log.count("] after\n")) == (6_000_000, 2)


def test_a_long_line_does_not_outlive_a_cancelled_job(site: Site) -> None:
    text = "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\000' A; echo; echo up > up; exec sleep 100\n"
    run = site.launch(site.task("long", text), ntasks_per_node=2)
    run.until_file(site.folder / "up")
    assert run.cancel()["long"].state is State.CANCELLED
    where, deadline = run.where("long").job_dir, time.monotonic() + 60
    while where in ask("ps", "-eo", "args="):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_logs_the_whole_one_first_then_the_ranks(site: Site) -> None:
    run: Run = site.launch(site.task("ranks", "#!/bin/sh\necho I am $SLURM_PROCID\n"), ntasks_per_node=2)
    assert run.executor.log_sources(run.jobs()[0]) == [] or run.jobs()
    run.wait()
    (job,) = run.jobs()
    sources = run.executor.log_sources(job)
    assert [source.rank for source in sources] == [None, 0, 1]
    assert sources[0].path == job.paths.log(str(job.handle))
    assert b"I am 1" in (run.executor.transport.read(sources[2].path) or b"")
    assert json.loads(Path(job.paths.seen).read_text())["observation"]["state"] == "SUCCEEDED"
