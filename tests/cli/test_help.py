"""``--help`` answers at once and names everything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nemo_launch.cli.flags import FLAGS
from nemo_launch.cli.parser import VERBS
from tests.cli.conftest import RUN_PY, Cli

# What argparse itself needs, and the modules of the command line; anything else makes --help slow.
NEVER = {
    "dataclasses",
    "inspect",
    "yaml",
    "cattrs",
    "rich",
    "fiddle",
    "torch",
    "json",
    "subprocess",
    "socket",
    "shutil",
}


@pytest.mark.parametrize("words", [["--help"], ["-s", "x.py", "--help"], *[[verb, "--help"] for verb in VERBS]])
def test_help_imports_next_to_nothing(words: list[str]) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from nemo_launch.cli import main\n"
        f"code = main({words!r}); print(*sorted(set(sys.modules) - before), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=RUN_PY.parent)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert not {name.partition(".")[0] for name in loaded} & NEVER
    assert {name for name in loaded if name.startswith("nemo_launch.")} <= {
        "nemo_launch.cli",
        "nemo_launch.cli.flags",
        "nemo_launch.cli.parser",
        "nemo_launch.cli.output",
        "nemo_launch.cli.verbs",
        "nemo_launch.errors",
        "nemo_launch.cli.streams",
        f"nemo_launch.cli.{words[0].replace('-', '_')}",
    }


def test_help_names_every_flag_and_verb(cli: Cli) -> None:
    text = cli("--help").out
    for flag in FLAGS:
        for name in flag.names:
            assert name in text
    for verb in VERBS:
        assert f"\n  {verb}" in text


def test_help_after_a_double_dash_is_the_scripts_own(cli: Cli) -> None:
    cli.script("a.sh", 'echo "got $1"\n')
    done = cli("-s", "a.sh", "--", "--help")
    assert "got --help\n" in done.out
    assert "usage:" not in done.out


def test_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("nemo_launch 0.")
