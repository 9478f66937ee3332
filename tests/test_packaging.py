"""The snapshot of the code: what is in it, what never is, and that it is stored whole or not at all."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_launch import packaging
from nemo_launch.errors import InputError, RecordError
from nemo_launch.packaging import git as git_module
from nemo_launch.packaging import listing, snapshot
from nemo_launch.task import Code, Task
from tests.lab import LabUser

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(path: Path, text: str = "x", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def big(path: Path, size: int) -> Path:
    """A file of that size that takes no room."""
    path.touch()
    os.truncate(path, size)
    return path


def names(code: Code) -> set[str]:
    return {path for path, _ in code.files}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture(autouse=True)
def no_own_git_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    write(folder / "train.py", "import model\n")
    write(folder / "lib" / "model.py", "layers = 1\n")
    write(folder / ".gitignore", "*.log\nout/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


# what is in it -------------------------------------------------------------------------------------------------


def test_the_job_sees_the_tree_as_it_was_at_submit(repo: Path, tmp_path: Path) -> None:
    write(repo / "train.py", "import model  # dirty\n")
    write(repo / "new.py", "untracked\n")
    write(repo / "run.log", "ignored\n")
    write(repo / "out" / "checkpoint", "ignored\n")
    write(repo / "gone.py")
    git(repo, "add", "gone.py")
    (repo / "gone.py").unlink()

    code = packaging.collect(str(repo))
    stored = packaging.store(code, str(tmp_path / "snapshots"))
    copy = tmp_path / "snapshots" / stored.digest
    at_submit = {
        "train.py": "import model  # dirty\n",
        "lib/model.py": "layers = 1\n",
        "new.py": "untracked\n",
        ".gitignore": "*.log\nout/\n",
    }
    assert contents(copy) == at_submit
    assert code.commit == git(repo, "rev-parse", "HEAD")
    assert code.dirty == 3  # modified, untracked, and staged but deleted

    write(repo / "train.py", "edited while the job waits\n")
    (repo / "lib" / "model.py").unlink()
    assert contents(copy) == at_submit


def test_a_clean_tree_is_not_dirty(repo: Path) -> None:
    code = packaging.collect(str(repo))
    assert (code.dirty, code.notes) == (0, ())


def test_collecting_changes_nothing(repo: Path) -> None:
    os.utime(repo / "train.py", (10**9, 10**9))  # git would like to refresh its index now
    index = (repo / ".git" / "index").read_bytes()
    before = sorted(os.listdir(repo / ".git"))
    packaging.collect(str(repo))
    assert (repo / ".git" / "index").read_bytes() == index
    assert sorted(os.listdir(repo / ".git")) == before


def test_a_subfolder_of_a_work_tree_is_only_itself(repo: Path) -> None:
    write(repo / "lib" / "debug.log")
    code = packaging.collect(str(repo / "lib"))
    assert names(code) == {"model.py"}
    assert code.commit == git(repo, "rev-parse", "HEAD")
    assert code.dirty == 0
    write(repo / "top.py")
    assert packaging.collect(str(repo / "lib")).dirty == 0, "changes elsewhere are not this folder's"


def test_a_folder_that_an_outer_repository_ignores_is_taken_whole(repo: Path) -> None:
    write(repo / "out" / "mine.py")
    assert names(packaging.collect(str(repo / "out"))) == {"mine.py"}


def test_modes_and_links_are_kept(repo: Path, tmp_path: Path) -> None:
    write(repo / "run.sh", "#!/bin/sh\n", 0o755)
    (repo / "current").symlink_to("lib/model.py")
    (repo / "folder").symlink_to("lib")
    (repo / "dangling").symlink_to("nowhere")
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    copy = tmp_path / "s" / code.digest
    assert os.access(copy / "run.sh", os.X_OK)
    assert not (copy / "train.py").stat().st_mode & stat.S_IXUSR
    links = {name: os.readlink(copy / name) for name in ("current", "folder", "dangling")}
    assert links == {"current": "lib/model.py", "folder": "lib", "dangling": "nowhere"}


def test_links_to_what_is_not_copied_lead_to_the_original(repo: Path, tmp_path: Path) -> None:
    write(tmp_path / "shared" / "a.txt", "shared")
    write(repo / "out" / "b.txt", "ignored")
    (repo / "shared").symlink_to("../shared")
    (repo / "later").symlink_to("../later")
    (repo / "lib" / "result").symlink_to("../out/b.txt")
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    copy = tmp_path / "s" / code.digest
    assert (copy / "shared" / "a.txt").read_text() == "shared"
    assert os.readlink(copy / "later") == str(tmp_path / "later")
    assert (copy / "lib" / "result").read_text() == "ignored"


def test_a_committed_folder_that_became_a_link(repo: Path, tmp_path: Path) -> None:
    shutil.move(repo / "lib", tmp_path / "lib")
    (repo / "lib").symlink_to(tmp_path / "lib")
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    assert os.readlink(tmp_path / "s" / code.digest / "lib") == str(tmp_path / "lib")


def test_submodules_and_clones_inside_are_listed_by_their_own_rules(repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / "dep.py")
    write(other / ".gitignore", "*.tmp\n")
    git(other, "init", "-q")
    git(other, "add", ".")
    git(other, "commit", "-qm", "first")
    git(repo, "submodule", "add", "-q", str(other), "deps/sub")
    git(repo, "commit", "-qm", "submodule")
    git(tmp_path, "clone", "-q", str(other), str(repo / "cloned"))
    for folder in ("deps/sub", "cloned"):
        write(repo / folder / "x.tmp", "ignored by the inner repository")
    code = packaging.collect(str(repo))
    assert {"deps/sub/dep.py", "cloned/dep.py"} <= names(code)
    assert not [name for name in names(code) if name.endswith(".tmp") or ".git/" in name]
    assert code.dirty == 0

    git(tmp_path, "clone", "-q", str(repo), str(tmp_path / "bare-clone"))
    [note] = packaging.collect(str(tmp_path / "bare-clone")).notes
    assert "submodule deps/sub is not checked out" in note


def test_without_git_every_file_is_taken(tmp_path: Path) -> None:
    write(tmp_path / "w" / "a.py")
    write(tmp_path / "w" / "deep" / "er" / ".hidden")
    code = packaging.collect(str(tmp_path / "w"))
    assert names(code) == {"a.py", "deep/er/.hidden"}
    assert (code.commit, code.dirty, code.notes) == (None, 0, ())


def test_repositories_inside_a_plain_folder_keep_their_rules(repo: Path, tmp_path: Path) -> None:
    write(repo / "run.log")
    write(tmp_path / "note.txt")
    assert names(packaging.collect(str(tmp_path))) == {
        "note.txt", "repo/train.py", "repo/lib/model.py", "repo/.gitignore",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["a b", "quote'\"", "new\nline", "tab\t", "é中", os.fsdecode(b"\xff\xfe"), "-n", "\\"])
def test_any_name_travels(repo: Path, tmp_path: Path, name: str) -> None:
    write(repo / "committed" / name, "1")
    git(repo, "add", ".")
    write(repo / name, "2")
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    copy = tmp_path / "s" / code.digest
    assert ((copy / "committed" / name).read_text(), (copy / name).read_text()) == ("1", "2")


_part = st.binary(min_size=1, max_size=12).filter(
    lambda b: not {0, ord("/")} & set(b) and b not in (b".", b"..") and os.fsdecode(b) not in listing.NEVER
    and b != b"pyvenv.cfg" and not os.fsdecode(b).lower().endswith(listing.IMAGES)
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_part, st.binary(max_size=50), max_size=6), st.dictionaries(_part, st.binary(), max_size=3))
def test_names_and_contents_round_trip(top: dict[bytes, bytes], below: dict[bytes, bytes]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        base = os.fsencode(temporary)
        os.makedirs(base + b"/root/d\xffir")
        files = {**{b"f" + n: c for n, c in top.items()}, **{b"d\xffir/" + n: c for n, c in below.items()}}
        for name, content in files.items():
            with open(base + b"/root/" + name, "wb") as file:
                file.write(content)
        code = packaging.store(packaging.collect(temporary + "/root"), temporary + "/s")
        copy = os.path.join(base, b"s", code.digest.encode())
        found = {}
        for folder, _, inside in os.walk(copy):
            for name in inside:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, copy)] = file.read()
        assert found == files
        if os.geteuid() != 0:
            subprocess.run(["chmod", "-R", "u+w", copy], check=True)


def test_equal_code_has_an_equal_name_and_any_difference_another(tmp_path: Path) -> None:
    def digest(folder: str, files: dict[str, tuple[str, int]]) -> str:
        for name, (text, mode) in files.items():
            write(tmp_path / folder / name, text, mode)
        return packaging.collect(str(tmp_path / folder)).digest

    first = digest("1", {"a": ("x", 0o644), "b": ("y", 0o644)})
    assert digest("2", {"b": ("y", 0o600), "a": ("x", 0o664)}) == first
    others = [
        digest("3", {"a": ("x", 0o755), "b": ("y", 0o644)}),
        digest("4", {"a": ("y", 0o644), "b": ("x", 0o644)}),
        digest("5", {"a": ("xy", 0o644), "b": ("", 0o644)}),
        digest("6", {"a": ("x", 0o644), "c": ("y", 0o644)}),
    ]
    assert len({first, *others}) == 5


# what never is -------------------------------------------------------------------------------------------------


def test_vertex_layout_home_work_dir_and_image_are_one_clone(repo: Path, tmp_path: Path) -> None:
    big(repo / "nemo-demo.sqsh", 12 * 2**30)
    big(repo / "tokens.bin", 60 * 2**20)
    write(repo / "experiments" / "demo" / "demo_1" / "experiment.json")
    write(repo / "snapshots" / "abc" / "train.py")
    for folder in ("logs", "cache", "data"):
        write(repo / folder / "f")
    leave_out = [str(repo), *(str(repo / folder) for folder in ("logs", "cache", "data"))]
    for given_home in (leave_out, [str(repo / "experiments"), str(repo / "snapshots"), *leave_out[1:]]):
        code = packaging.collect(str(repo), given_home)
        assert names(code) == {"train.py", "lib/model.py", ".gitignore"}
        [note] = code.notes
        assert "nemo-demo.sqsh (12.0 GB), tokens.bin (60.0 MB)" in note
        assert "--include" in note


def test_include_brings_files_and_folders_back(repo: Path) -> None:
    big(repo / "tokens.bin", 51 * 2**20)
    write(repo / "tiny.sqsh")
    write(repo / "out" / "best" / "weights")
    write(repo / "data" / "sample.txt")
    include = ["tokens.bin", "tiny.sqsh", "out/best/", str(repo / "data" / "sample.txt")]
    code = packaging.collect(str(repo), [str(repo / "data")], include)
    assert {"tokens.bin", "tiny.sqsh", "out/best/weights", "data/sample.txt"} <= names(code)
    assert code.notes == ()


def test_including_everything_still_leaves_the_records_out(repo: Path) -> None:
    write(repo / "experiments" / "demo" / "log")
    write(repo / "run.log")
    code = packaging.collect(str(repo), [str(repo / "experiments")], ["."])
    assert names(code) == {"train.py", "lib/model.py", ".gitignore", "run.log"}


def test_includes_that_cannot_be_are_all_named(repo: Path) -> None:
    with pytest.raises(InputError) as caught:
        packaging.collect(str(repo), (), ["nope.bin", "../elsewhere"])
    assert len(caught.value.problems) == 2
    assert "nope.bin" in str(caught.value) and "outside" in str(caught.value)


def test_an_include_behind_a_link(repo: Path, tmp_path: Path) -> None:
    write(repo / "out" / "w.bin", "weights")
    write(tmp_path / "far" / "w.bin")
    (repo / "near").symlink_to("out")
    (repo / "far").symlink_to("../far")
    assert "out/w.bin" in names(packaging.collect(str(repo), (), ["near/w.bin"]))
    with pytest.raises(InputError, match="outside"):
        packaging.collect(str(repo), (), ["far/w.bin"])


def test_committed_files_in_a_folder_that_is_left_out_are_named(repo: Path) -> None:
    write(repo / "data" / "loader.py")
    git(repo, "add", ".")
    code = packaging.collect(str(repo), [str(repo / "data")])
    assert "data/loader.py" not in names(code)
    assert any("1 committed file(s) under data/" in note for note in code.notes)


@pytest.mark.parametrize("in_git", [True, False])
def test_machinery_is_never_code(repo: Path, in_git: bool) -> None:
    if not in_git:
        shutil.rmtree(repo / ".git")
    for path in ("lib/__pycache__/model.pyc", "node_modules/x/y.js", ".venv/a", "env/pyvenv.cfg", "env/lib/a/b.py"):
        write(repo / path)
    code = packaging.collect(str(repo))
    assert names(code) == {"train.py", "lib/model.py", ".gitignore"}
    assert code.dirty == 0


def test_pipes_and_sockets_are_named_and_skipped(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    os.mkfifo(repo / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(repo, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/socket")  # the path itself may be too long for a socket
        os.close(here)
        [note] = packaging.collect(str(repo)).notes
    assert note == "skipped: pipe (pipe), socket (socket)"


def test_unreadable_files_and_folders_are_named_and_skipped(tmp_path: Path, lab_user: LabUser) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        base = Path(temporary)
        base.chmod(0o755)
        write(base / "ok.py")
        write(base / "secret", "s", 0)
        write(base / "closed" / "f")
        (base / "closed").chmod(0)
        code = "from nemo_launch import packaging; c = packaging.collect('.'); print([n for n, _ in c.files], *c.notes)"
        run = f"import sys; sys.path[:0] = {sys.path!r}; import os; " + code.replace("'.'", repr(temporary))
        as_user = (
            f"import os, sys\nif os.geteuid() == 0: os.setegid({lab_user.gid}); os.seteuid({lab_user.uid})\n"
            if os.geteuid() == 0 else ""
        )  # fmt: skip
        imports = f"import sys; sys.path[:0] = {sys.path!r}\nimport nemo_launch.packaging\n"
        done = subprocess.run([sys.executable, "-c", imports + as_user + run], capture_output=True, text=True)
        (base / "closed").chmod(0o700)
    assert done.stderr == ""
    assert done.stdout.startswith("['ok.py'] skipped: closed (Permission denied), secret (Permission denied)")


# too much ------------------------------------------------------------------------------------------------------


def test_a_folder_with_too_many_files_is_refused_before_all_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_FILES", 20)
    for number in range(30):
        write(tmp_path / "w" / f"{number:02}" / "f")
    looked = []
    real = os.scandir

    def scandir(path: str) -> object:
        looked.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(packaging.TooMuch) as caught:
        packaging.collect(str(tmp_path / "w"))
    assert len(looked) < 25
    for way_out in ("-d", ".gitignore", "--no-snapshot", "snapshot=False"):
        assert way_out in str(caught.value)


def test_a_folder_with_too_many_bytes_is_refused_before_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    for number in range(22):
        big(tmp_path / "w" / str(number), 49 * 2**20)
    with pytest.raises(packaging.TooMuch, match=r"over 1\.0 GB"):
        packaging.collect(str(tmp_path / "w"))


def test_committed_files_have_no_limit_but_untracked_ones_do(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(repo / "many" / str(number))
    monkeypatch.setattr(listing, "MAX_FILES", 20)
    with pytest.raises(packaging.TooMuch, match="not committed"):
        packaging.collect(str(repo))
    write(repo / ".gitignore", "many/\n")
    assert len(packaging.collect(str(repo)).files) == 3
    git(repo, "add", "-f", ".")
    assert len(packaging.collect(str(repo)).files) == 33


@pytest.mark.parametrize("bad", ["new\nline", "missing", "file"])
def test_a_root_that_cannot_be_is_refused(tmp_path: Path, bad: str) -> None:
    write(tmp_path / "file")
    with pytest.raises(InputError, match="work_dir"):
        packaging.collect(str(tmp_path / bad))


# git that does not help ----------------------------------------------------------------------------------------


def test_without_the_program_git_the_folder_is_walked(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo / "run.log")
    monkeypatch.setenv("PATH", str(repo))
    code = packaging.collect(str(repo))
    assert names(code) == {"train.py", "lib/model.py", ".gitignore", "run.log"}
    assert code.commit is None
    assert any("the program git was not found" in note for note in code.notes)


@root_only
def test_a_repository_of_another_user_is_walked(repo: Path) -> None:
    os.chown(repo, 12345, 12345)
    os.chown(repo / ".git", 12345, 12345)
    code = packaging.collect(str(repo))
    assert "train.py" in names(code)
    assert any("safe.directory" in note for note in code.notes)


def test_a_broken_repository_is_walked(repo: Path) -> None:
    (repo / ".git" / "HEAD").unlink()
    code = packaging.collect(str(repo))
    assert "train.py" in names(code) and code.notes


def test_a_repository_without_commits_keeps_its_rules(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write(folder / ".gitignore", "*.log\n")
    write(folder / "a.log")
    write(folder / "a.py")
    git(folder, "init", "-q")
    code = packaging.collect(str(folder))
    assert names(code) == {".gitignore", "a.py"}
    assert (code.commit, code.dirty) == (None, 2)
    assert any("no commit yet" in note for note in code.notes)


def test_a_git_that_hangs_is_ended(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "bin" / "git", "#!/bin/sh\nexec sleep 60\n", 0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(git_module, "TIME_LIMIT", 0.3)
    code = packaging.collect(str(repo))
    assert "train.py" in names(code)
    assert any("no answer" in note for note in code.notes)


def test_a_surrounding_git_does_not_mislead(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other.index"))
    code = packaging.collect(str(repo))
    assert code.notes == () and code.commit


# stored --------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_read_only_and_no_more_readable_than_the_original(repo: Path, tmp_path: Path) -> None:
    write(repo / "private.env", "TOKEN=x", 0o600)
    write(repo / "closed" / "f")
    (repo / "closed").chmod(0o700)
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    copy = tmp_path / "s" / code.digest
    for path in (copy, *copy.rglob("*")):
        assert not path.stat().st_mode & 0o222, path
    assert stat.S_IMODE((copy / "private.env").stat().st_mode) == 0o400
    assert stat.S_IMODE((copy / "closed").stat().st_mode) == 0o500
    assert os.listdir(tmp_path / "s") == [code.digest]


def test_a_snapshot_that_exists_is_used_without_copying(repo: Path, tmp_path: Path) -> None:
    code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    shutil.rmtree(repo)
    assert packaging.store(code, str(tmp_path / "s")) == code


def test_what_was_copied_names_the_snapshot_when_files_change_meanwhile(repo: Path, tmp_path: Path) -> None:
    before = packaging.collect(str(repo))
    write(repo / "train.py", "edited\n")
    (repo / "lib" / "model.py").unlink()
    after = packaging.store(before, str(tmp_path / "s"))
    assert after.digest == packaging.collect(str(repo)).digest != before.digest
    assert os.listdir(tmp_path / "s") == [after.digest]
    assert contents(tmp_path / "s" / after.digest)["train.py"] == "edited\n"


def test_a_tree_under_constant_edit_is_stored_under_its_own_name(repo: Path, tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        try:
            for number in itertools.count():
                write(repo / "grows.txt", "line\n" * (number % 5000))
                write(repo / "lib" / f"{number % 7}.py", str(number))
                (repo / "lib" / f"{(number + 3) % 7}.py").unlink(missing_ok=True)
        finally:
            os._exit(1)
    try:
        for _ in range(20):
            code = packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
            assert packaging.collect(str(tmp_path / "s" / code.digest)).digest == code.digest
            assert names(code) >= {"train.py", "lib/model.py"}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert len(os.listdir(tmp_path / "s")) > 1, "it was edited meanwhile"


def test_a_task_follows_its_code(repo: Path, tmp_path: Path) -> None:
    snapshots = str(tmp_path / "s")
    code = packaging.collect(str(repo))
    old = os.path.join(snapshots, code.digest)
    task = Task("t", "train.py", "python", (f"{old}/train.py", old), code=(code,), pythonpath=(old,))
    assert packaging.stored(task, snapshots) == task
    write(repo / "train.py", "edited\n")
    shutil.rmtree(old)
    moved = packaging.stored(task, snapshots)
    new = os.path.join(snapshots, moved.code[0].digest)
    assert new != old
    assert moved == replace(task, code=moved.code, argv=(f"{new}/train.py", old), pythonpath=(new,))
    assert Path(moved.argv[0]).read_text() == "edited\n"


def test_a_user_without_rights_stores_reuses_and_is_told_when_it_cannot(lab_user: LabUser) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        base = Path(temporary)
        base.chmod(0o755)
        write(base / "w" / "lib" / "a.py")
        for name in ("mine", "theirs"):
            (base / name).mkdir()
        os.chown(base / "mine", lab_user.uid, lab_user.gid)
        (base / "theirs").chmod(0o555)
        child = os.fork()
        if not child:
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setgid(lab_user.gid)
                    os.setuid(lab_user.uid)
                code = packaging.collect(str(base / "w"))
                for _ in range(2):
                    kept = packaging.store(code, str(base / "mine" / "s"))
                    assert os.listdir(base / "mine" / "s") == [kept.digest]
                with pytest.raises(RecordError, match="Permission denied"):
                    packaging.store(code, str(base / "theirs"))
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        subprocess.run(["chmod", "-R", "u+w", temporary], check=os.geteuid() == 0)


def _store(code: Code, snapshots: str, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    for _ in range(3):
        assert packaging.store(code, snapshots).digest == code.digest


def test_four_launchers_may_store_the_same_code_at_once(repo: Path, tmp_path: Path) -> None:
    for number in range(100):
        write(repo / "more" / str(number), str(number) * 1000)
    code = packaging.collect(str(repo))
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    racers = [context.Process(target=_store, args=(code, str(tmp_path / "s"), barrier)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert os.listdir(tmp_path / "s") == [code.digest]
    assert len(contents(tmp_path / "s" / code.digest)) == 103


def test_a_launcher_killed_while_storing_leaves_no_half_snapshot(repo: Path, tmp_path: Path) -> None:
    code = packaging.collect(str(repo))
    child = os.fork()
    if not child:
        snapshot._publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        packaging.store(code, str(tmp_path / "s"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert code.digest not in os.listdir(tmp_path / "s")
    packaging.store(code, str(tmp_path / "s"))
    assert set(contents(tmp_path / "s" / code.digest)) == names(code)


def test_what_killed_launchers_left_long_ago_is_swept_up(repo: Path, tmp_path: Path) -> None:
    for name, age in (("old", 90_000), ("young", 10)):
        folder = tmp_path / "s" / f".{name}.tmp"
        write(folder / "f")
        os.utime(folder, (time.time() - age, time.time() - age))
    packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))
    assert sorted(os.listdir(tmp_path / "s"))[0] == ".young.tmp"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@root_only
def test_a_full_disk_is_an_error_and_nothing_is_left(
    repo: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(small_disk))
    for number in range(8):
        write(repo / f"{number}.bin", "x" * 300_000)
    with pytest.raises(RecordError, match=r"No space left.*NEMORUN_HOME"):
        packaging.store(packaging.collect(str(repo)), str(small_disk / "s"))
    assert os.listdir(small_disk / "s") == []


def test_a_place_that_cannot_be_written_is_an_error(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path))
    write(tmp_path / "s")
    with pytest.raises(RecordError, match="NEMORUN_HOME"):
        packaging.store(packaging.collect(str(repo)), str(tmp_path / "s"))


# given as text -------------------------------------------------------------------------------------------------


def test_text_is_code_named_by_its_content(tmp_path: Path) -> None:
    code = packaging.inline("script.sh", "echo é\n")
    assert code == packaging.inline("script.sh", "echo é\n")
    assert code.digest != packaging.inline("script.sh", "echo e\n").digest
    assert packaging.store(code, str(tmp_path)).digest == code.digest
    assert (tmp_path / code.digest / "script.sh").read_bytes() == "echo é\n".encode()


def test_one_file_alone(tmp_path: Path) -> None:
    code = packaging.alone(str(write(tmp_path / "w" / "a.sh", "echo", 0o750)))
    write(tmp_path / "w" / "other")
    stored = packaging.store(code, str(tmp_path / "s"))
    assert stored.digest == code.digest
    assert contents(tmp_path / "s" / code.digest) == {"a.sh": "echo"}


def test_tasks_of_one_request_share_one_look_at_the_tree(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    with packaging.shared():
        first = packaging.collect(str(tmp_path))
        (tmp_path / "a.py").write_text("2")
        assert packaging.collect(str(tmp_path)) is first
        assert packaging.collect(str(tmp_path), include=["a.py"]).digest != first.digest
    assert packaging.collect(str(tmp_path)).digest != first.digest
