"""Fixtures that every room shares: real Slurm clusters, and the launcher run by a user without rights."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.lab import Lab, LabUser, Launcher, checkout_for, python_for, why_not
from tests.lab.pyxis import Images

CLUSTERS = {"slurm", "slurm_noacct", "slurm_affinity", "slurm_jobenv", "slurm_pyxis", "slurm_preempt", "slurm_events"}
REQUIRE = "NEMO_LAUNCH_REQUIRE_SLURM"
skipped = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses a cluster, through however many fixtures, carries the marker ``slurm``."""
    for item in items:
        if CLUSTERS & set(getattr(item, "fixturenames", ())):
            item.add_marker("slurm")


def pytest_configure() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, and whoever is started by that, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A run without the cluster must not look like a run with it."""
    for reason in config.stash.get(skipped, set()):
        terminalreporter.write_sep("!", red=True, bold=True)
        terminalreporter.write_line(f"REAL SLURM TESTS WERE SKIPPED: {reason}", red=True, bold=True)
        terminalreporter.write_line(f"{REQUIRE}=1 makes this a failure.", red=True)


def _without_cluster(config: pytest.Config, reason: str) -> None:
    if os.environ.get(REQUIRE, "") not in ("", "0"):
        pytest.fail(f"{REQUIRE} is set, but there is no Slurm to test with: {reason}", pytrace=False)
    config.stash.setdefault(skipped, set()).add(reason)
    pytest.skip(f"no Slurm: {reason}")


def _cluster(lab: Lab, config: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    if reason := why_not():
        _without_cluster(config, reason)
    use = lab.in_use()
    try:
        use.__enter__()
    except (RuntimeError, OSError) as error:
        _without_cluster(config, str(error))
    try:
        yield lab
    finally:
        try:
            lab.scancel(*lab.jobs(session_dir))  # only ours: other sessions may share the cluster
            lab.wait_idle(session_dir)
        finally:
            use.__exit__(None, None, None)


@pytest.fixture(scope="session")
def session_dir() -> Iterator[Path]:
    """A folder of this test session that every user and every node sees."""
    path = Path(tempfile.mkdtemp(prefix="nemo-launch-tests-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """The default cluster: two partitions of two nodes, accounting without stored environments."""
    yield from _cluster(Lab(), pytestconfig, session_dir)


@pytest.fixture(scope="session")
def slurm_noacct(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """A cluster without accounting: sacct only fails."""
    yield from _cluster(Lab.variant("noacct", ACCOUNTING="none"), pytestconfig, session_dir)


@pytest.fixture(scope="session")
def slurm_affinity(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """A cluster of two-processor nodes that binds tasks to processors; without accounting."""
    lab = Lab.variant("affinity", ACCOUNTING="none", CPUS="2", TASK_PLUGIN="task/affinity")
    yield from _cluster(lab, pytestconfig, session_dir)


@pytest.fixture(scope="session")
def slurm_jobenv(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """A cluster whose accounting keeps, and shows, each job's comment, script and environment."""
    lab = Lab.variant("jobenv", STORE="job_comment,job_env,job_script")
    yield from _cluster(lab, pytestconfig, session_dir)


@pytest.fixture(scope="session")
def slurm_pyxis(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """A cluster whose srun starts containers, by the stand-in of pyxis; without accounting."""
    yield from _cluster(Lab.variant("pyxis", ACCOUNTING="none", PYXIS="yes"), pytestconfig, session_dir)


@pytest.fixture(scope="session")
def images(slurm_pyxis: Lab, session_dir: Path, user_python: Path) -> Images:
    """Images that ``slurm_pyxis`` can start."""
    folder = session_dir / "images"
    folder.mkdir()
    folder.chmod(0o755)
    return Images(folder, slurm_pyxis.directory / "registry", user_python)


@pytest.fixture(scope="session")
def slurm_preempt(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """A cluster where jobs of partition ``high`` preempt: those of ``a3m`` and ``a3u`` go back into the queue, those of
    ``cancelled`` do not. By default jobs are not requeued here (``JobRequeue=0``)."""
    nodes = "MaxTime=INFINITE DefaultTime=01:00:00 State=UP Default=NO"
    extra = (
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        f"PartitionName=high Nodes=a3m-[0-1],a3u-[0-1] PriorityTier=100 {nodes}",
        f"PartitionName=cancelled Nodes=a3m-[0-1],a3u-[0-1] PreemptMode=CANCEL {nodes}",
    )
    lab = Lab.variant("preempt", JOB_REQUEUE="0", EXTRA="\n".join(extra))
    yield from _cluster(lab, pytestconfig, session_dir)


@pytest.fixture(scope="session")
def slurm_events(pytestconfig: pytest.Config, session_dir: Path) -> Iterator[Lab]:
    """A cluster that tests may break. Partition ``high`` preempts: jobs of ``a3m`` and ``a3u`` go back into the queue,
    those of ``cancelled`` do not. It forgets jobs and gives up nodes soon, and watches memory where it can."""
    shared = "Nodes=a3m-[0-1],a3u-[0-1] MaxTime=INFINITE DefaultTime=01:00:00 State=UP Default=NO"
    extra = (
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        f"PartitionName=high PriorityTier=100 {shared}",
        f"PartitionName=cancelled PreemptMode=CANCEL {shared}",
    )
    settings = {"SLURMD_TIMEOUT": "10", "MIN_JOB_AGE": "30", "EXTRA": "\n".join(extra)}
    if os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK):
        settings["TASK_PLUGIN"] = "task/cgroup"
    yield from _cluster(Lab.variant("events", **settings), pytestconfig, session_dir)


@pytest.fixture(scope="session")
def lab_user() -> LabUser:
    """The user without rights as whom tests run the launcher."""
    return LabUser.get()


@pytest.fixture(scope="session")
def make_workspace(session_dir: Path, lab_user: LabUser) -> Callable[[], Path]:
    """Makes empty folders that belong to the user."""
    numbers = count()
    return lambda: lab_user.make_dir(session_dir / f"workspace-{next(numbers)}")


@pytest.fixture
def workspace(make_workspace: Callable[[], Path]) -> Path:
    """An empty folder that belongs to the user, seen by every node."""
    return make_workspace()


@pytest.fixture(scope="session")
def user_python(lab_user: LabUser, session_dir: Path) -> Path:
    """A Python with our packages that the user can execute, on every node."""
    return python_for(lab_user, session_dir)


@pytest.fixture(scope="session")
def make_launcher(
    lab_user: LabUser, session_dir: Path, user_python: Path, make_workspace: Callable[[], Path]
) -> Callable[[Lab | None], Launcher]:
    """``make_launcher(lab)``: run.py as the user, in a workspace of its own, on that cluster or on none."""
    checkout = checkout_for(lab_user, session_dir)
    return lambda lab: Launcher(lab_user, user_python, checkout, make_workspace(), lab)


@pytest.fixture
def launcher(make_launcher: Callable[[Lab | None], Launcher]) -> Launcher:
    """run.py as the user, in a workspace of its own; it knows of no cluster."""
    return make_launcher(None)


@pytest.fixture
def slurm_launcher(make_launcher: Callable[[Lab | None], Launcher], slurm: Lab) -> Launcher:
    """run.py as the user, in a workspace of its own, on the default cluster."""
    return make_launcher(slurm)
