"""YAML files of settings: strict, and every error names file and line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_launch.config.loading import parse, read
from nemo_launch.errors import InputError


def refused(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    return str(caught.value)


def test_a_mapping_with_the_line_of_every_key() -> None:
    document = parse("# x\na: 1\nb:\n  c: [1, 2]\n\n  d: {e: f}\n", "f.yaml")
    assert document.values == {"a": 1, "b": {"c": [1, 2], "d": {"e": "f"}}}
    assert document.where("a") == "f.yaml:2"
    assert document.where("b", "d") == document.where("b", "d", "e") == "f.yaml:6"
    assert document.where("b", "absent") == "f.yaml:3"
    assert document.where("absent") == document.where() == "f.yaml"


def test_merge_keys_and_anchors_keep_their_lines() -> None:
    document = parse("base: &b\n  x: 1\n  y: 2\nmore:\n  <<: *b\n  y: 3\n", "f.yaml")
    assert document.values["more"] == {"x": 1, "y": 3}
    assert document.where("more", "x") == "f.yaml:2"
    assert document.where("more", "y") == "f.yaml:6"


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "---\n# nothing\n...\n"])
def test_an_empty_file_says_nothing(text: str) -> None:
    assert parse(text, "f.yaml").values == {}


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter() -> None:
    document = parse(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "f.yaml")
    assert document.values == {"a": 1, "b": 2}
    assert document.where("b") == "f.yaml:2"


def test_env_vars_stay_as_they_are_written() -> None:
    text = "env_vars: {A: 1.10, B: yes, C: 010, D: 12:30:00, E: 2026-01-02, F: 1e3, G: 'x', H: .inf, I: 0x1F, J: -1}"
    assert parse(text, "f.yaml").values["env_vars"] == {
        "A": "1.10", "B": "yes", "C": "010", "D": "12:30:00", "E": "2026-01-02",
        "F": "1e3", "G": "x", "H": ".inf", "I": "0x1F", "J": "-1",
    }  # fmt: skip
    assert parse("env_vars: {A: , B: ~, C: [1]}", "f.yaml").values["env_vars"] == {"A": None, "B": None, "C": [1]}
    assert parse("nodes: &n 2\nenv_vars: {N: *n}", "f.yaml").values == {"nodes": 2, "env_vars": {"N": "2"}}


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join(10 * [f'*a{n - 1}'])}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: a stands twice, first in line 1. Keep one of them."),
        ("a: 1\na: 1\n", "f.yaml:2: a stands twice"),
        ("p:\n  q: {x: 1, x: 2}\n", "f.yaml:2: x stands twice"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: a second document starts here"),
        ("- a\n- b\n", "f.yaml:1: the file is not a mapping"),
        ("\n\njust text\n", "f.yaml:3: the file is not a mapping"),
        ("a:\n\tb: 1\n", "f.yaml:2: a tab stands where only spaces may. Indent with spaces."),
        ("a: {{ x }}\n", "f.yaml:1: a key is a list or a mapping. Quote text that starts with { or [."),
        ("a: !!python/object/apply:os.system ['true']\n", "f.yaml:1: tags such as !!python/… are not read here"),
        ("a: !x 1\n", "f.yaml:1: tags such as"),
        ("a: [1\nb: 2\n", "f.yaml:2: it is not YAML: "),
        ("a: 'x\n", "it is not YAML: "),
        ("a: b: c\n", "f.yaml:1: it is not YAML: mapping values are not allowed here"),
        ("a: *x\n", "f.yaml:1: it is not YAML: found undefined alias"),
        ("a: 1\nb: \x07\n", "f.yaml:2: it holds the character '\\x07', which YAML does not allow"),
        ("a: &a [1, *a]\n", "f.yaml:1: it contains itself, by an alias. Write it out."),
        ("a: &a {b: {c: *a}}\n", "f.yaml:1: it contains itself"),
        (BOMB, "with its aliases written out it has more than 100000 values"),
        ("a: 2024-13-45\n", "f.yaml: it holds a value that YAML cannot read: "),
        ("a: " + "[" * 3000 + "]" * 3000, "f.yaml: it is nested too deeply"),
        (b"a: 1\nb: \xff\n", "f.yaml:2: it is not UTF-8 text. Save it as UTF-8."),
        ("a: 1\n".encode("utf-16"), "f.yaml:1: it is not UTF-8 text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text: str | bytes, message: str) -> None:
    said = refused(text)
    assert message in said
    assert len(said.splitlines()) == 1


def test_all_keys_that_stand_twice_are_named() -> None:
    assert [line.split(":")[1] for line in refused("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3\n").splitlines()] == [
        "2",
        "3",
        "4",
    ]


def test_numbers_with_an_exponent_are_numbers_where_settings_take_any() -> None:
    assert parse("lr: 1e-5\nbig: 2E+3\nname: '1e5'\nplain: 1.5\ntext: 1e5x\n", "f.yaml").values == {
        "lr": 1e-5, "big": 2000.0, "name": "1e5", "plain": 1.5, "text": "1e5x",
    }  # fmt: skip


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (1 << 20) + b"\n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    cases: list[tuple[str | Path, str]] = [
        (tmp_path / "none.yaml", "none.yaml: cannot be read: No such file or directory"),
        (tmp_path, "it is a directory"),
        (big, "it is larger than 1 MiB"),
        (Path("/dev/zero"), "it is larger than 1 MiB"),
        (pipe, "it is a named pipe, and may never be written to"),
        ("a\0b", "it holds a NUL byte"),
    ]
    for path, message in cases:
        with pytest.raises(InputError) as caught:
            read(path)
        assert message in str(caught.value)


def test_a_pipe_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"nodes: 2\n")
    os.close(writer)
    assert read(f"/dev/fd/{reader}").values == {"nodes": 2}
    os.close(reader)


def test_loaders_of_others_are_left_alone_and_theirs_do_not_reach_ours() -> None:
    code = (
        "import yaml; before = dict(yaml.SafeLoader.yaml_constructors)\n"
        "from nemo_launch.config.loading import parse\n"
        "parse('a: 1', 'f')\n"
        "assert dict(yaml.SafeLoader.yaml_constructors) == before\n"
        "assert yaml.safe_load('1e-5') == '1e-5'\n"
        "yaml.SafeLoader.add_constructor('!late', lambda loader, node: 1)\n"
        "try: parse('a: !late 1', 'f')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "InputError\n"
