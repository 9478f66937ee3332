"""Every command and program of README.md and docs/ does what its page says, on a real cluster where that says so."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.page import PAGES, ROOT, Step, languages, missing, steps
from tests.lab import Lab, Launcher
from tests.lab.pyxis import Images
from tests.lab.pyxis.enroot import Tools

#: The page for clusters with pyxis.
CONTAINERS = "docs/containers.md"
MakeLauncher = Callable[[Lab | None], Launcher]


class Reader:
    """Somebody without rights who has a fresh clone and follows one page from its top."""

    def __init__(self, launcher: Launcher, **env: str) -> None:
        self.launcher = launcher
        self.clone = launcher.user.make_dir(launcher.workspace / "nemo_launch")
        _copy_checkout(self.clone)
        self._env = launcher.env(**env)
        del self._env["NEMORUN_HOME"]  # the reader has only what the page says
        self._cwd = str(self.clone)

    def take(self, step: Step) -> tuple[int, str]:
        """Do what a step says: status and everything that it printed."""
        if step.file:
            self._write(step)
            return 0, ""
        if step.language == "python":
            return self._run([str(self.launcher.python), "-c", step.text])
        state = self.launcher.workspace / "state"
        keep = f"trap 'rc=$?; (pwd; env -0) >{state}; exit $rc' EXIT\n"
        done = self._run(["bash", "-e", "-o", "pipefail", "-c", keep + step.text])
        cwd, _, env = state.read_text(errors="surrogateescape").partition("\n")
        pairs = (entry.partition("=") for entry in env.split("\0") if entry)
        self._cwd, self._env = cwd, {name: value for name, _, value in pairs if not name.startswith("BASH_FUNC")}
        return done

    def _run(self, argv: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            [*self.launcher.prefix, *argv],
            env=self._env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout

    def _write(self, step: Step) -> None:
        name = re.sub(r"\$(\w+)", lambda match: self._env[match[1]], step.file or "")
        path = Path(self._cwd) / name
        path.write_text(step.text)
        os.chown(path, self.launcher.user.uid, self.launcher.user.gid)


def _copy_checkout(target: Path) -> None:
    argv = ["git", "-C", str(ROOT), "ls-files", "-z", "--", "run.py", "nemo_launch", "recipes", "examples", "README.md"]
    names = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=150).stdout
    pack = subprocess.run(
        ["tar", "-C", str(ROOT), "--null", "--ignore-failed-read", "-T", "-", "-c"],
        input=names.encode(),
        capture_output=True,
        check=True,
    ).stdout
    subprocess.run(["tar", "-C", str(target), "-x", "--no-same-owner"], input=pack, check=True)
    owner = target.stat()
    subprocess.run(["chown", "-R", f"{owner.st_uid}:{owner.st_gid}", str(target)], check=True)


def follow(page: str, launcher: Launcher, slurm: bool, **env: str) -> None:
    """Take the steps of a page that are for this kind of machine; what it shows must be what is printed."""
    reader = Reader(launcher, **env)
    for step in steps((ROOT / page).read_text()):
        if step.slurm is not slurm and not step.setting:
            continue
        code, output = reader.take(step)
        print(f"--- {page}:{step.line} ({code})\n{step.text}--- prints\n{output}")
        assert code == 0, f"{page}:{step.line} ends with status {code}:\n{output}"
        for line in missing(step.shown, output):
            pytest.fail(f"{page}:{step.line} does not print {line!r}, but:\n{output}", pytrace=False)


def has(page: str, slurm: bool) -> bool:
    return any(step.slurm is slurm and not step.setting for step in steps((ROOT / page).read_text()))


@pytest.mark.parametrize("page", [page for page in PAGES if has(page, slurm=False)])
def test_what_a_page_says_works_on_one_machine(page: str, make_launcher: MakeLauncher) -> None:
    follow(page, make_launcher(None), slurm=False)


@pytest.mark.parametrize("page", [page for page in PAGES if has(page, slurm=True) and page != CONTAINERS])
def test_what_a_page_says_works_on_slurm(page: str, make_launcher: MakeLauncher, slurm: Lab) -> None:
    follow(page, make_launcher(slurm), slurm=True)


def test_what_the_page_on_containers_says_works_on_slurm(
    make_launcher: MakeLauncher, make_workspace: Callable[[], Path], slurm_pyxis: Lab, images: Images
) -> None:
    launcher = make_launcher(slurm_pyxis)
    tools = Tools(launcher.user, make_workspace() / "tools", images.without_bash)
    follow(CONTAINERS, launcher, slurm=True, PATH=tools.path(launcher.env()["PATH"]))


@pytest.mark.parametrize("page", PAGES)
def test_no_block_looks_as_if_it_could_be_run_and_is_not(page: str) -> None:
    """``sh``, ``shell`` and ``py`` would be shown like the others, and never tried."""
    assert languages((ROOT / page).read_text()) <= {"bash", "python", "yaml", "text", "console", "json"}


def test_the_two_commands_of_the_readme_are_what_continuous_integration_runs() -> None:
    ci = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    readme = (ROOT / "README.md").read_text()
    for command in ("make demo", "make test"):
        assert f"{command} " in readme
        words = [line.split(" PYTEST_ARGS")[0].removeprefix("NEMO_LAUNCH_REQUIRE_SLURM=1 ") for line in ci]
        assert command in words, f".ci/run does not call {command}"


def test_the_installed_command_is_the_same_program(launcher: Launcher) -> None:
    with_name = "import sys; from nemo_launch.cli import main; sys.argv[0] = '/bin/nemo-launch'; sys.exit(main())"
    assert 'nemo-launch = "nemo_launch.cli:main"' in (ROOT / "pyproject.toml").read_text()
    done = subprocess.run(
        [*launcher.prefix, str(launcher.python), "-c", with_name, "status", "nothing"],
        env=launcher.env(),
        cwd=launcher.checkout,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("nemo-launch: error: no experiment 'nothing'")


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"
