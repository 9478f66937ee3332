"""Script recipes: found, lowered to words, and run from a copy of their code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_launch import packaging
from nemo_launch.config.executor import LocalConfig
from nemo_launch.errors import InputError
from nemo_launch.packaging import listing
from nemo_launch.recipes import Script, Site
from nemo_launch.task import Task
from tests.lab import LabUser


def write(path: Path, text: str = "", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work dir that is not the current directory."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def lower(work: Path, tmp_path: Path) -> Callable[..., Task]:
    def lower(script: Script, store: bool = False, **config: Any) -> Task:
        site = Site(LocalConfig(**config), str(work), str(tmp_path / "snapshots"))
        task = script.lower("task", site, ("before",))
        return packaging.stored(task, site.snapshots) if store else task

    return lower


def run(task: Task, env: Mapping[str, str] = {}) -> str:
    """What an executor does with a task, in short."""
    interpreter = task.interpreter or ((sys.executable,) if task.language == "python" else ("bash",))
    path = {"PYTHONPATH": ":".join(task.pythonpath)} if task.pythonpath else {}
    argv = [*interpreter, *task.argv]
    done = subprocess.run(argv, cwd=task.work_dir, env={**os.environ, **path, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# from where it runs --------------------------------------------------------------------------------------------


def test_a_script_of_the_work_dir_runs_from_its_copy_with_its_neighbours(
    work: Path, tmp_path: Path, lower: Callable[..., Task]
) -> None:
    write(work / "src" / "train.py", "import os, neighbour, package; print(neighbour.x, package.y, os.getcwd())")
    write(work / "src" / "neighbour.py", "x = 1")
    write(work / "package" / "__init__.py", "y = 2")
    task = lower(Script("src/train.py"), store=True)
    for file in ("src/train.py", "src/neighbour.py", "package/__init__.py"):
        write(work / file, "edited while the job waits")
    root = os.path.join(tmp_path, "snapshots", task.code[0].digest)
    assert (task.argv, task.pythonpath) == ((f"{root}/src/train.py",), (root,))
    assert (task.recipe, task.work_dir) == (str(work / "src" / "train.py"), str(work))
    assert (task.name, task.after, task.language) == ("task", ("before",), "python")
    assert run(task) == f"1 2 {work}\n"


def test_a_script_outside_takes_the_recipes_folder_that_it_belongs_to(
    work: Path, tmp_path: Path, lower: Callable[..., Task]
) -> None:
    write(tmp_path / "clone" / "recipes" / "pretrain" / "llama.py", "import common.x, mine; print(common.x.x, mine.y)")
    write(tmp_path / "clone" / "recipes" / "common" / "x.py", "x = 1")
    write(tmp_path / "clone" / "README")
    write(work / "mine.py", "y = 2")
    task = lower(Script(str(tmp_path / "clone" / "recipes" / "pretrain" / "llama.py")), store=True)
    shutil.rmtree(tmp_path / "clone")
    (work / "mine.py").unlink()
    assert [code.root for code in task.code] == [str(tmp_path / "clone" / "recipes"), str(work)]
    assert run(task) == "1 2\n"


def test_a_script_outside_takes_its_own_directory(work: Path, tmp_path: Path, lower: Callable[..., Task]) -> None:
    write(tmp_path / "tools" / "run.sh", 'cat "$(dirname "$0")/words"')
    write(tmp_path / "tools" / "words", "hello")
    task = lower(Script(str(tmp_path / "tools" / "run.sh")), store=True)
    shutil.rmtree(tmp_path / "tools")
    assert run(task) == "hello"


def test_a_script_in_a_crowd_travels_alone_and_says_so(
    tmp_path: Path, lower: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_FILES", 5)
    for number in range(9):
        write(tmp_path / "crowd" / str(number))
    task = lower(Script(str(write(tmp_path / "crowd" / "a.sh", "echo hi"))), store=True)
    assert "without its neighbours" in task.code[0].notes[0]
    assert os.listdir(os.path.dirname(task.argv[0])) == ["a.sh"]
    assert run(task) == "hi\n"


def test_a_crowded_work_dir_is_refused_for_its_own_scripts_and_left_for_others(
    work: Path, tmp_path: Path, lower: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_FILES", 5)
    for number in range(9):
        write(work / f"{number}.py")
    with pytest.raises(InputError, match="--no-snapshot"):
        lower(Script("1.py"))
    assert lower(Script("1.py"), snapshot=False).argv == (str(work / "1.py"),)
    task = lower(Script(str(write(tmp_path / "tools" / "run.py", "print(1)"))), store=True)
    assert any("no copy of the work dir" in note for note in task.code[0].notes)
    assert run(task) == "1\n"


def test_a_script_that_git_ignores_still_runs(work: Path, lower: Callable[..., Task]) -> None:
    write(work / ".gitignore", "scratch/\n")
    write(work / "scratch" / "try.sh", "echo tried")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    assert run(lower(Script("scratch/try.sh"), store=True)) == "tried\n"


def test_a_work_dir_reached_by_a_link_is_the_same_work_dir(
    work: Path, tmp_path: Path, lower: Callable[..., Task]
) -> None:
    write(work / "a.sh", "echo hi")
    (tmp_path / "link").symlink_to(work)
    task = lower(Script(str(tmp_path / "link" / "a.sh")))
    assert [code.root for code in task.code] == [str(work)]


def test_a_link_in_the_work_dir_to_a_script_elsewhere(work: Path, tmp_path: Path, lower: Callable[..., Task]) -> None:
    write(tmp_path / "tools" / "run.py", "import neighbour; print(neighbour.x)")
    write(tmp_path / "tools" / "neighbour.py", "x = 1")
    (work / "run.py").symlink_to("../tools/run.py")
    task = lower(Script("run.py"), store=True)
    write(tmp_path / "tools" / "neighbour.py", "edited while the job waits")
    assert run(task) == "1\n"


@pytest.mark.parametrize("style", ["path", "finder"])
def test_editable_installs_are_imported_from_the_copy_or_named(
    work: Path, tmp_path: Path, lower: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    site = tmp_path / "venv" / "site-packages"
    mine, far = work / "src" / "mine", tmp_path / "far" / "other"
    for package in (mine, far):
        write(package / "__init__.py", "x = 1")
        if style == "path":
            write(site / f"__editable__.{package.name}.pth", f"{package.parent}\n")
        else:
            mapping = f"MAPPING: dict[str, str] = {{{package.name!r}: {str(package)!r}}}\n"
            write(site / f"__editable___{package.name}_finder.py", mapping)
    write(work / "run.py", "import mine; print(mine.x)")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    task = lower(Script("run.py"), store=True)
    write(mine / "__init__.py", "edited while the job waits")
    assert run(task) == "1\n"
    [note] = task.code[0].notes
    assert f"imports from {far.parent} (editable installs)" in note
    assert lower(Script("run.py"), python="/opt/other/python").code[0].notes == ()


def test_without_snapshot_it_runs_in_place(work: Path, tmp_path: Path, lower: Callable[..., Task]) -> None:
    write(work / "src" / "a.py", "import top; print(top.x)")
    write(work / "top.py", "x = 1")
    task = lower(Script("src/a.py"), store=True, snapshot=False)
    assert (task.argv, task.code, task.pythonpath) == ((str(work / "src" / "a.py"),), (), (str(work),))
    assert not (tmp_path / "snapshots").exists()
    assert run(task) == "1\n"


def test_include_reaches_the_snapshot(work: Path, lower: Callable[..., Task]) -> None:
    write(work / "a.sh", 'cat "$(dirname "$0")/tiny.sqsh"')
    write(work / "tiny.sqsh", "image")
    assert run(lower(Script("a.sh"), store=True, include=("tiny.sqsh",))) == "image"
    with pytest.raises(InputError, match=r"nope\.bin"):
        lower(Script("a.sh"), include=("nope.bin",))


def test_a_dry_run_writes_nothing_and_names_the_same_paths(
    work: Path, tmp_path: Path, lower: Callable[..., Task]
) -> None:
    write(work / "a.sh")
    dry = lower(Script("a.sh"))
    assert not (tmp_path / "snapshots").exists()
    assert lower(Script("a.sh"), store=True) == dry
    assert (tmp_path / "snapshots" / dry.code[0].digest / "a.sh").exists()


# given as text -------------------------------------------------------------------------------------------------


def test_text_runs_in_the_work_dir(work: Path, lower: Callable[..., Task]) -> None:
    task = lower(Script(inline='pwd; printf "%s\\n" "$@"', args=("a b", "$HOME")), store=True)
    assert (task.recipe, task.language, task.interpreter) == ("inline", "shell", ())
    assert run(task) == f"{work}\na b\n$HOME\n"


def test_text_runs_from_a_copy_even_without_snapshot(work: Path, lower: Callable[..., Task]) -> None:
    write(work / "mine.py", "x = 1")
    for snapshot in (True, False):
        task = lower(Script(inline="import mine; print(mine.x)", entrypoint="python"), store=True, snapshot=snapshot)
        assert run(task) == "1\n"


# what runs it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "entrypoint", "language", "interpreter"),
    [
        ("a.py", "", None, "python", ()),
        ("a.py", "#!/bin/bash\n", None, "python", ()),
        ("a.sh", "", None, "shell", ()),
        ("a", "echo", None, "shell", ()),
        ("a", "#!/bin/sh -e\n", None, "shell", ("/bin/sh", "-e")),
        ("a", "#! /usr/bin/env bash\n", None, "shell", ("/usr/bin/env", "bash")),
        ("a", "#!/usr/bin/env -S bash -e -u\r\n", None, "shell", ("/usr/bin/env", "-S bash -e -u")),
        ("a", "#!/usr/bin/env python3\n", None, "python", ()),
        ("a", "#!/usr/bin/env -S python3 -u\n", None, "python", ()),
        ("a", "#!/opt/bin/python3.12 -u\n", None, "python", ()),
        ("a.sh", "#!/bin/sh\n", "bash", "shell", ("bash",)),
        ("a.sh", "", "bash -eu", "shell", ("bash", "-eu")),
        ("a.py", "", "bash", "shell", ("bash",)),
        ("a.sh", "", "python", "python", ()),
        ("a", "", "python3", "python", ()),
        ("a.py", "", "'/my env/bin/python' -u", "python", ("/my env/bin/python", "-u")),
    ],
)
def test_the_entrypoint_then_the_suffix_then_the_shebang_decide(
    work: Path,
    lower: Callable[..., Task],
    name: str,
    text: str,
    entrypoint: str | None,
    language: str,
    interpreter: tuple[str, ...],
) -> None:
    write(work / name, text)
    task = lower(Script(name, entrypoint=entrypoint))
    assert (task.language, task.interpreter) == (language, interpreter)
    assert bool(task.pythonpath) == (language == "python")


def test_a_program_is_no_script(work: Path, lower: Callable[..., Task]) -> None:
    (work / "tool").write_bytes(b"\x7fELF\x02")
    with pytest.raises(InputError, match="is a program"):
        lower(Script("tool"))


# where it is found ---------------------------------------------------------------------------------------------


def test_it_is_looked_for_in_order(work: Path, tmp_path: Path, lower: Callable[..., Task]) -> None:
    here = tmp_path / "elsewhere"
    places = [
        work / "x" / "a.sh",
        here / "x" / "a.sh",
        work / "recipes" / "x" / "a.sh",
        here / "recipes" / "x" / "a.sh",
    ]
    for place in places:
        write(place, f"echo {place}")
    for place in places:
        assert lower(Script("x/a.sh")).recipe == str(place)
        place.unlink()
    with pytest.raises(InputError) as caught:
        lower(Script("x/a.sh"))
    for place in places:
        assert str(place) in str(caught.value)


def test_the_recipes_beside_the_package_are_found_from_anywhere(lower: Callable[..., Task]) -> None:
    task = lower(Script("pretrain/llama_tiny_pt.py", entrypoint="python"))
    assert task.recipe.endswith("/recipes/pretrain/llama_tiny_pt.py")


@pytest.mark.parametrize("typed", ["pretrain/lama.py", "llama.py", "pretrain/llama", "pretrain/Llama.py", "pretrain"])
def test_near_names_are_offered(work: Path, lower: Callable[..., Task], typed: str) -> None:
    write(work / "recipes" / "pretrain" / "llama.py")
    with pytest.raises(InputError, match=r"Did you mean .*pretrain/llama\.py"):
        lower(Script(typed))


def test_what_is_there_but_is_no_script_is_said(work: Path, lower: Callable[..., Task]) -> None:
    (work / "folder").mkdir()
    os.mkfifo(work / "pipe")
    with pytest.raises(InputError, match="is a directory"):
        lower(Script("folder"))
    with pytest.raises(InputError, match="not a regular file"):
        lower(Script("pipe"))
    with pytest.raises(InputError, match="not a regular file"):
        lower(Script("/dev/null"))


def test_a_script_that_may_not_be_read(lab_user: LabUser) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        script = write(Path(folder) / "a.sh", "", 0)
        code = (
            f"import sys; sys.path[:0] = {sys.path!r}\nimport os\n"
            "from nemo_launch import packaging, scripts; import difflib\n"
            f"if os.geteuid() == 0: os.setegid({lab_user.gid}); os.seteuid({lab_user.uid})\n"
            f"try: scripts.find({str(script)!r}, {folder!r})\nexcept Exception as error: print(error)"
        )
        # access() asks for the real user, which seteuid leaves alone
        code = code.replace("os.setegid", "os.setgid").replace("os.seteuid", "os.setuid")
        done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True)
    assert "may not be read" in done.stdout, done


def test_home_is_expanded(tmp_path: Path, lower: Callable[..., Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "mine" / "a.sh")
    assert lower(Script("~/mine/a.sh")).recipe == str(tmp_path / "mine" / "a.sh")


def test_a_work_dir_that_is_not_there(tmp_path: Path) -> None:
    site = Site(LocalConfig(), str(tmp_path / "gone"), str(tmp_path / "s"))
    with pytest.raises(InputError, match="gone"):
        Script(str(write(tmp_path / "a.sh"))).lower("task", site)


# arguments and environment -------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5))
def test_arguments_are_passed_on_untouched(args: list[str]) -> None:
    with tempfile.TemporaryDirectory() as work:
        write(Path(work) / "a.sh")
        task = Script("a.sh", args=args).lower("task", Site(LocalConfig(), work, work + "/s"))
        assert list(task.argv[1:]) == args


def test_lists_are_accepted_as_nemo_run_has_them() -> None:
    script = Script(path="a.sh", args=["x", "y"], env={"A": "1"}, entrypoint="bash")
    assert script.args == ("x", "y")
    assert Script("", inline="echo hi", args=[]).name == "script"


def test_the_name_is_the_files_name_without_its_suffix() -> None:
    assert Script("pretrain/llama3p1_2b_pt.py").name == "llama3p1_2b_pt"
    assert Script(inline="echo").name == "script"


def test_secret_values_are_in_no_record_and_no_repr(work: Path, lower: Callable[..., Task]) -> None:
    write(work / "a.sh")
    script = Script("a.sh", env={"MY_API_KEY": "s3cr3t", "LEVEL": "1"})
    task = lower(script)
    assert (task.env, task.secrets) == ({"LEVEL": "1"}, ("MY_API_KEY",))
    assert task.secret_values == {"MY_API_KEY": "s3cr3t"}
    assert "s3cr3t" not in f"{script!r} {task!r} {task.record()!r}"


def test_all_problems_are_reported_at_once_and_nothing_is_written(tmp_path: Path, lower: Callable[..., Task]) -> None:
    script = Script(
        "missing.py",
        args=["ok", "a\0b", 3],  # type: ignore[list-item]
        env={"1BAD": "x", "NUL": "a\0", "NUMBER": 3},  # type: ignore[dict-item]
        entrypoint="bash '",
    )
    with pytest.raises(InputError) as caught:
        lower(script, store=True)
    text = str(caught.value)
    for word in ("missing.py", "args[1]", "args[2]", "1BAD", "NUL byte", "NUMBER", "entrypoint"):
        assert word in text
    assert not (tmp_path / "snapshots").exists()


@pytest.mark.parametrize(
    "script",
    [
        Script(),
        Script(""),
        Script("a.sh", inline="echo"),
        Script("a\0.sh"),
        Script(inline="a\0"),
        Script("a.sh", args="--one-text"),
        Script("a.sh", env=[("A", "1")]),  # type: ignore[arg-type]
    ],
)
def test_a_request_that_makes_no_sense_is_refused(work: Path, lower: Callable[..., Task], script: Script) -> None:
    write(work / "a.sh")
    with pytest.raises(InputError):
        lower(script)


def test_equal_requests_lower_equally(work: Path, tmp_path: Path, lower: Callable[..., Task]) -> None:
    write(work / "a.sh")
    assert lower(Script("a.sh")).record() == lower(replace(Script("a.sh"), args=[])).record()


def test_a_script_that_vanishes_while_it_is_looked_at_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lower: Callable[..., Task]
) -> None:
    script = write(tmp_path / "crowd" / "a.sh", "echo hi")

    def gone(*_: object) -> None:
        script.unlink()
        raise InputError("too much")

    monkeypatch.setattr(packaging, "collect", gone)
    with pytest.raises(InputError, match=f"cannot read {script}: No such file"):
        lower(Script(str(script)))
