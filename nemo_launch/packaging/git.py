"""What git knows of a folder, in two calls that run side by side and change nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

#: Seconds for each call. A work tree that needs longer holds more than a snapshot should.
TIME_LIMIT = 30.0
_SUBMODULE = "160000"
#: Set by a surrounding git (a hook, say); they would make git speak of another repository.
_FOREIGN = frozenset(
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"]
    + ["GIT_NAMESPACE", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"]
)


class Tree(NamedTuple):
    """The part of a work tree under a folder; paths are relative to that folder."""

    tracked: list[str]
    untracked: list[str]
    """Without the ignored ones."""
    nested: list[str]
    """Submodules and repositories that lie inside: listed by themselves."""
    commit: str | None
    dirty: int
    """Modified, staged, deleted and untracked files."""
    notes: list[str]


def top_of(folder: str) -> str | None:
    """The folder, or the nearest one above it, that has a ``.git``; no process is started."""
    here = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here


def tree(folder: str, top: str, skip: Iterable[str]) -> Tree | str:
    """Files under a folder of a work tree, or in one sentence why git cannot tell.

    Args:
        folder: inside the work tree ``top``.
        skip: absolute folders that git need not look into for untracked files.
    """
    import subprocess

    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    # No optional locks: a git command that the user runs meanwhile must not find the index locked by us.
    env.update(GIT_OPTIONAL_LOCKS="0", LC_ALL="C", GIT_TERMINAL_PROMPT="0")
    git = ["git", "-c", "core.fsmonitor=false", "-C", folder]
    patterns = ["__pycache__/", "node_modules/", ".venv/"]
    patterns += ["/" + _quoted(os.path.relpath(path, top)) + "/" for path in skip if path.startswith(top + "/")]
    listing = ["ls-files", "-z", "-t", "-s", "--cached", "--others", "--exclude-standard"]
    listing += [f"--exclude={pattern}" for pattern in patterns]
    # Only for the commit and the number of changes: submodules and untracked files are looked at by the listing.
    status = ["status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--no-renames"]
    status += ["--untracked-files=no", "--ignore-submodules=dirty", "--", "."]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in (listing, status):
            processes.append(
                subprocess.Popen(
                    git + command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=env,
                    cwd=folder,  # git wants to know where it is called, which may be no more
                )
            )
        (files, files_error), (state, state_error) = (p.communicate(timeout=TIME_LIMIT) for p in processes)
    except (FileNotFoundError, PermissionError):
        return "the program git was not found"
    except subprocess.TimeoutExpired:
        return f"git gave no answer within {TIME_LIMIT:g} s"
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    if processes[0].returncode:
        return _complaint(files_error, folder)
    notes = [f"git: {line}" for line in files_error.decode("utf-8", "replace").splitlines()[:1]]
    commit, changes = _state(state)
    if processes[1].returncode:
        notes.append(f"the commit is not recorded: {_complaint(state_error, folder)}")
    elif commit is None:
        notes.append(f"{folder}: the git repository has no commit yet")
    tracked, untracked, nested = _files(files)
    return Tree(tracked, untracked, nested, commit, changes + len(untracked), notes)


def _files(output: bytes) -> tuple[list[str], list[str], list[str]]:
    tracked: dict[str, None] = {}  # an unmerged path comes once per stage
    untracked: list[str] = []
    nested: dict[str, None] = {}
    for entry in os.fsdecode(output).split("\0")[:-1]:
        tag, rest = entry[0], entry[2:]
        if tag == "?":
            # git does not look into another repository: it names its folder, with a slash.
            if rest.endswith("/"):
                nested[rest[:-1]] = None
            else:
                untracked.append(rest)
        else:
            facts, path = rest.split("\t", 1)
            (nested if facts.startswith(_SUBMODULE) else tracked)[path] = None
    return list(tracked), untracked, list(nested)


def _state(output: bytes) -> tuple[str | None, int]:
    commit, changes = None, 0
    for entry in output.split(b"\0"):
        if entry.startswith(b"# branch.oid ") and not entry.endswith(b"(initial)"):
            commit = entry.split()[-1].decode("ascii", "replace")
        elif entry[:2] in (b"1 ", b"2 ", b"u "):
            changes += 1
    return commit, changes


def _complaint(error: bytes, folder: str) -> str:
    text = error.decode("utf-8", "replace").strip()
    if "dubious ownership" in text:
        return f"git refuses a repository of another user (git config --global --add safe.directory {folder} allows it)"
    return "git says: " + (text.splitlines() or ["nothing"])[0]


def _quoted(path: str) -> str:
    """A path as a pattern that matches only itself."""
    return "".join("\\" + c if c in "\\*?[ " else c for c in path)
