"""What a script says of itself in its PEP 723 block."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nemo_launch.config.script_metadata import read

BLOCK = """#!/usr/bin/env python3
# /// script
# dependencies = ["torch"]
#
# [tool.nemo-launch]
# launcher = "torchrun"
# nodes = 2
# gpus-per-node = 8
# time = "1:00:00"
# image = "nemo.sqsh"
# secrets = ["HF_TOKEN"]
# ///
raise SystemExit("never executed")
"""


def test_the_table_becomes_fields() -> None:
    fields = {
        "launcher": "torchrun",
        "nodes": 2,
        "gpus_per_node": 8,
        "time": "1:00:00",
        "container_image": "nemo.sqsh",
        "secrets": ["HF_TOKEN"],
    }
    assert read(BLOCK) == fields
    assert read(BLOCK.replace("\n", "\r\n")) == fields


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print('# /// script nemo-launch')",
        "# /// script\n# dependencies = []\n# ///\n",
        "# /// other\n# [tool.nemo-launch]\n# nodes = 2\n# ///\n",
        "# nemo-launch\n# /// script\n# not toml, and not ours\n# ///\n",
    ],
)
def test_other_files_say_nothing(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# nodes = 2", "# nodes = ", "line 7: .*TOML"),
        ("# ///\n", "", "line 2: .*not well formed"),
        ("# nodes = 2", "nodes = 2", "line 2: .*not well formed"),
        ('# time = "1:00:00"', "# time = 01:00:00", 'line 9: .*quote it: time = "01:00:00"'),
        ("# nodes = 2", '# container_image = "x"', "line 10: image .*second time"),
        ("raise", BLOCK + "raise", "line 14: .*second"),
    ],
)
def test_a_broken_block_is_an_error_with_its_line(old: str, new: str, message: str) -> None:
    assert old in BLOCK
    with pytest.raises(ValueError, match=message):
        read(BLOCK.replace(old, new, 1))


def test_a_value_where_the_table_should_be() -> None:
    with pytest.raises(ValueError, match="line 3: .*not a table"):
        read("# /// script\n# [tool]\n# nemo-launch = 3\n# ///\n")


def test_files_without_a_block_cost_no_parser() -> None:
    code = "import sys; from nemo_launch.config.script_metadata import read; read('1'); print('tomllib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
