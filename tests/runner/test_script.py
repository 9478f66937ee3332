"""The text of the batch script: what goes in as a value is what bash sees."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_launch import runner
from nemo_launch.runner import VALUES, batch_script, files, quote, secrets_file

NEEDED = {name: "x" for name, value in VALUES.items() if value.default is None}
RUNNER = runner.__path__[0]
SKELETON = Path(RUNNER, "skeleton.sh").read_text("utf-8")
anything = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20) | st.text(
    "\\'\"$`!\n\r\t\x01\x7f é*", max_size=9
)


def as_bash_reads(words: Sequence[str], text: str) -> list[str]:
    script = batch_script([], {**NEEDED, "nl_program": words, "nl_setup": text})
    values = script.partition("\n\n# shellcheck")[0]
    done = subprocess.run(
        ["bash"],
        input=(values + '\nprintf "%s\\0" "$nl_setup" "${nl_program[@]}"').encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


@given(st.lists(anything, max_size=5), anything)
@settings(max_examples=60, deadline=None)
def test_values_arrive_as_given(words: list[str], text: str) -> None:
    assert as_bash_reads(words, text) == [text, *words]


def test_bytes_that_are_no_utf8_arrive() -> None:
    word = b"\xff a".decode("utf-8", "surrogateescape")
    assert as_bash_reads([word], "") == ["", word]


@given(anything)
@settings(max_examples=200)
def test_no_carriage_return_reaches_sbatch(word: str) -> None:
    assert "\r" not in quote(word)


def test_directives_come_first_and_the_skeleton_last() -> None:
    script = batch_script(["#SBATCH --nodes=2", "#SBATCH --time=1"], NEEDED)
    assert script.startswith("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=1\n")
    assert script.endswith(SKELETON)


def test_names_that_the_skeleton_does_not_know_are_errors() -> None:
    with pytest.raises(KeyError, match="nl_nodez"):
        batch_script([], {**NEEDED, "nl_nodez": 2})
    with pytest.raises(KeyError, match="nl_task"):
        batch_script([], {name: "x" for name in NEEDED if name != "nl_task"})
    with pytest.raises(TypeError, match="nl_program"):
        batch_script([], {**NEEDED, "nl_program": "echo"})
    with pytest.raises(TypeError, match="nl_task"):
        batch_script([], {**NEEDED, "nl_task": ["a"]})
    with pytest.raises(ValueError, match="NUL"):
        batch_script([], {**NEEDED, "nl_task": "a\0b"})


def test_every_value_is_used() -> None:
    texts = "".join(Path(RUNNER, name).read_text("utf-8") for name in ("restarts.sh", "skeleton.sh"))
    assert [name for name in VALUES if not re.search(rf"\$(\{{#?)?{name}\b", texts)] == []


def test_secrets_are_entries_ended_by_nul() -> None:
    assert secrets_file({"A": "x\ny", "B": ""}) == b"A=x\ny\0B=\0"


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_the_shell_is_clean() -> None:
    subprocess.run(["shellcheck", "-s", "bash", f"{RUNNER}/skeleton.sh"], check=True)
    subprocess.run(["shellcheck", "-s", "sh", f"{RUNNER}/rank.sh"], check=True)


@pytest.mark.parametrize("name", sorted(files("python", "torchrun")))
def test_the_runner_works_on_python_3_8(name: str) -> None:
    ast.parse(files("python", "torchrun")[name], feature_version=(3, 8))
    check = ["-c", "from vermin import main; main()", "--target=3.8-", "--violations", "--no-tips", f"{RUNNER}/{name}"]
    subprocess.run([sys.executable, *check], check=True)


def test_the_runner_imports_the_standard_library_only() -> None:
    for text in files("python", "torchrun").values():
        tree = ast.parse(text)
        imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        assert imported - set(sys.stdlib_module_names) <= {"failure", "output"}
