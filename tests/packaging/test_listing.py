"""The snapshot of the code: what is in it, and what never is."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_launch import packaging
from nemo_launch.errors import InputError
from nemo_launch.packaging import listing
from tests.lab import LabUser
from tests.packaging.tree import big, contents, git, names, write


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
