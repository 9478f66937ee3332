"""What cannot work here is found before anything is written, all of it at once."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_launch import LocalConfig, LocalExecutor, State
from nemo_launch.errors import InputError, SchedulerRefused
from tests.conformance.conftest import make_local
from tests.conformance.site import Site


def said(site: Site, text: str = "#!/bin/sh\n", python: bool = False, **fields: object) -> list[str]:
    executor = make_local(**fields)
    return [str(problem) for problem in executor.check([site.task("a", text, python=python)])]


def test_a_good_request_has_no_problem(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(site) == []
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:  # another test may have used it
        monkeypatch.delitem(sys.modules, name)
    assert said(site, python=True) == []  # torch is installed with the tests, and is not imported for this
    assert "torch" not in sys.modules


def test_several_processes_need_something_that_starts_them(site: Site) -> None:
    (problem,) = said(site, ntasks_per_node=2)
    assert "launcher torchrun" in problem
    assert said(site, ntasks_per_node=2, launcher="torchrun") == []


def test_an_interpreter_without_torch_is_named(site: Site) -> None:
    bare = site.folder / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    problem = str(*make_local(python=str(bare)).check([site.task("a", "", python=True)]))
    assert f"{bare} has no torch" in problem and "launcher=none" in problem


def test_a_missing_interpreter_is_named(site: Site) -> None:
    executor = make_local(python="/nowhere/python3")
    (problem,) = executor.check([site.task("a", "", python=True)])
    assert "/nowhere/python3" in problem.what


def test_all_problems_come_together(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    task = replace(site.task("a", ""), work_dir=str(site.folder / "missing"), secrets=("NO_SUCH_TOKEN",))
    executor = LocalExecutor(LocalConfig(ntasks_per_node=0, max_parallel=0, env_vars={"PATH": "/nowhere"}))
    text = "\n".join(map(str, executor.check([task])))
    for part in ("ntasks_per_node", "max_parallel", "missing", "NO_SUCH_TOKEN"):
        assert part in text
    assert list(site.folder.iterdir()) == [site.folder / "a.sh"]


def test_keywords_make_the_config() -> None:
    assert LocalExecutor(ntasks_per_node=2).config == LocalConfig(ntasks_per_node=2)
    with pytest.raises(InputError, match="max_paralel"):
        LocalExecutor(max_paralel=2)
    with pytest.raises(InputError):
        LocalExecutor(LocalConfig(), ntasks_per_node=2)


def test_a_secret_in_the_config_is_not_shown(site: Site) -> None:
    executor = LocalExecutor(LocalConfig(env_vars={"MY_TOKEN": "s3cr3t", "PLAIN": "x"}, launcher="none"))
    assert "s3cr3t" not in repr(executor)
    task = site.task("a", '#!/bin/sh\n[ "$MY_TOKEN" = s3cr3t ] && [ "$PLAIN" = x ]\n')
    run = site.prepare(task, env_vars={"MY_TOKEN": "s3cr3t", "PLAIN": "x"})
    assert "s3cr3t" not in repr(run.plans)
    assert run.submit().wait()["a"].state is State.SUCCEEDED


def test_a_supervisor_that_cannot_start_is_a_refusal(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = site.prepare(site.task("a", ""))
    broken = site.folder / "broken"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(SchedulerRefused, match="no such luck"):
        run.submit()
    (job,) = run.jobs()
    assert (job.intended, job.handle) == (None, None)
    assert Path(job.paths.refused).exists()
    assert run.poll()["a"].state is State.UNSUBMITTED


def test_a_task_whose_work_dir_vanished_fails_with_the_reason(site: Site) -> None:
    gone = site.folder / "gone"
    gone.mkdir()
    run = site.prepare(replace(site.task("a", ""), work_dir=str(gone)), site.task("b", "", after=["a"]))
    gone.rmdir()
    seen = run.submit().wait()
    assert seen["a"].state is State.FAILED
    assert os.fspath(gone) in seen["a"].reason
    assert seen["b"].skipped


def test_a_predecessor_under_another_executor_counts(site: Site) -> None:
    text = "#!/bin/sh\nsleep 0.3; echo $1 >> order; exit $2\n"
    run = site.prepare(site.task("good", text, "good", "0"), site.task("bad", text, "bad", "1"))
    after = [site.task("b", text, "b", "0", after=["good"]), site.task("c", text, "c", "0", after=["bad"])]
    other = make_local(grace="0:02", max_parallel=1)
    for task in after:
        Path(run.paths.task(task.name).dir).mkdir()
    late = [other.plan(task, run.paths.task(task.name)) for task in after]
    run.submit()
    other.submit(late, run.book)
    run.plans += late
    seen = run.wait()
    assert (seen["b"].state, seen["c"].state, seen["c"].skipped) == (State.SUCCEEDED, State.CANCELLED, True)
    assert sorted((site.folder / "order").read_text().split()) == ["b", "bad", "good"]
