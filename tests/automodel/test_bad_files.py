"""AutoModel files that are wrong: one clear error each, with file, line and key, and nothing left behind."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_launch.cli import main

RECIPE = "recipe: mine.train\n"
Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Refused:
    """What run.py says of ``f.yaml``; it must end with 2 and leave nothing."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    for name in ("NOT_SET", "RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("A_TOKEN", "a value that is secret")
    monkeypatch.setenv("NUMBER", "two")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setenv("PATH", f"{_stand_ins(tmp_path / 'bin')}:{os.environ['PATH']}")

    def run(*words: str) -> str:
        before = sorted(os.listdir(work))
        assert main(words or ("-c", "f.yaml")) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert "Traceback" not in err and "bug in" not in err and "a value that is secret" not in err
        assert all(line.startswith("run.py: ") for line in err.splitlines()), err
        assert not (tmp_path / "home").exists() and sorted(os.listdir(work)) == before
        return "\n".join(line for line in err.splitlines() if line.startswith("run.py: error: "))

    return run


def _stand_ins(folder: Path) -> Path:
    """A cluster that does not answer, with pyxis: what is wrong with a file hangs on none."""
    folder.mkdir()
    scripts = {
        "sbatch": "exit 1",
        "srun": "echo --container-image --container-mounts --container-env --container-workdir",
        "sinfo": "echo sinfo: error: Unable to contact slurm controller >&2; exit 1",
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def slurm(*lines: str) -> str:
    """A file with a section; its first line is number 3."""
    return RECIPE + "slurm:\n" + "".join(f"  {line}\n" for line in lines)


#: Name -> (file, where, what).
SYNTAX: dict[str, tuple[str | bytes, str, str]] = {
    "empty": ("", "f.yaml:", "the file says nothing"),
    "only a comment": ("# later\n", "f.yaml:", "the file says nothing"),
    "null": ("null\n", "f.yaml:", "the file says nothing"),
    "a list": ("- recipe: x\n", "f.yaml:1:", "the file is not a mapping"),
    "text": ("recipe\n", "f.yaml:1:", "the file is not a mapping"),
    "a number": ("42\n", "f.yaml:1:", "the file is not a mapping"),
    "two documents": (RECIPE + "---\nslurm: {}\n", "f.yaml:2:", "a second document starts here"),
    "a tab": (RECIPE + "slurm:\n\tnodes: 2\n", "f.yaml:3:", "a tab stands where only spaces may"),
    "a key twice": (slurm("nodes: 2", "nodes: 3"), "f.yaml:4:", "nodes stands twice, first in line 3"),
    "a section twice": (slurm("nodes: 2") + "slurm:\n  nodes: 3\n", "f.yaml:4:", "slurm stands twice"),
    "a key of the recipe twice": (RECIPE + "model: {a: 1, a: 2}\n", "f.yaml:2:", "a stands twice"),
    "no such anchor": (RECIPE + "model: *missing\n", "f.yaml:2:", "found undefined alias"),
    "an alias in a circle": (RECIPE + "model: &m [*m]\n", "f.yaml:2:", "it contains itself, by an alias"),
    "a bomb": (
        RECIPE + "a0: &a0 [0,0,0,0,0,0,0,0,0,0]\n"
        + "".join(f"a{n}: &a{n} [{','.join(10 * [f'*a{n - 1}'])}]\n" for n in range(1, 12)),
        "f.yaml:",
        "with its aliases written out it has more than 100000 values",
    ),
    "not UTF-8": (b"recipe: mine.train\nmodel: \xff\xfe\n", "f.yaml:2:", "it is not UTF-8 text"),
    "UTF-16": ("recipe: x\n".encode("utf-16"), "f.yaml:1:", "it is not UTF-8 text"),
    "a byte order mark and then an error": (b"\xef\xbb\xbfrecipe: a.b\nslurm: 3\n", "f.yaml:2:", "slurm is not"),
    "a control character": ("recipe: a.b\nmodel: \x07\n", "f.yaml:2:", "which YAML does not allow"),
    "ten megabytes": (b"#" * (10 << 20), "f.yaml:", "it is larger than 1 MiB"),
    "a bracket that is not closed": (RECIPE + "model: [1, 2\nslurm: {}\n", "f.yaml:", "it is not YAML"),
    "a quote that is not closed": (RECIPE + "model: 'x\n", "f.yaml:", "it is not YAML"),
    "a colon too many": (RECIPE + "model: a: b\n", "f.yaml:2:", "mapping values are not allowed here"),
    "an object of Python": (RECIPE + "m: !!python/object:os.x {}\n", "f.yaml:2:", "tags such as !!python/"),
    "nested too deeply": (RECIPE + "m: " + "[" * 3000 + "]" * 3000, "f.yaml:", "it is nested too deeply"),
    "a template": (RECIPE + "model: {{ name }}\n", "f.yaml:2:", "a key is a list or a mapping"),
    "a day that is none": (RECIPE + "day: 2024-13-45\n", "f.yaml:", "a value that YAML cannot read"),
    "a key that is a number": (RECIPE + "1: x\n", "f.yaml", "the key 1 is not text"),
    "a key that is true": (RECIPE + "on: x\n", "f.yaml", "the key True is not text"),
}  # fmt: skip

WHAT: dict[str, tuple[str, str, str]] = {
    "nothing to run": ("slurm:\n  nodes: 2\n", "f.yaml:", "nothing in it says what to run"),
    "no target": ("recipe:\n  target: a.b\n", "f.yaml:1: recipe:", "it has no _target_"),
    "a target that is a number": ("recipe:\n  _target_: 3\n", "f.yaml:2: recipe._target_:", "it is not the name"),
    "a recipe that is a list": ("recipe: [a.b]\n", "f.yaml:1: recipe:", "it is not the name of what to run"),
    "an empty recipe": ("recipe: ''\n", "f.yaml:1: recipe:", "it is not the name of what to run"),
    "a recipe with spaces": ("recipe: my recipe\n", "f.yaml:1: recipe:", "no name that could be imported"),
    "a recipe with a dash": ("recipe: my-pkg.train\n", "f.yaml:1: recipe:", "no name that could be imported"),
    "a file that is not there": ("recipe: none/such.py\nslurm: {nods: 1}\n", "f.yaml:1: recipe:", "such.py"),
    "both sections": (RECIPE + "slurm: {}\nskypilot: {}\n", "f.yaml:3:", "a section slurm (line 2) and a section skyp"),
    "a section with a capital": (RECIPE + "Slurm: {nodes: 2}\n", "f.yaml:2:", "Did you mean slurm?"),
    "a section with a typo": (RECIPE + "slrum: {nodes: 2}\n", "f.yaml:2:", "Did you mean slurm?"),
    "kubernetes": (RECIPE + "k8s: {}\n", "f.yaml:2:", "k8s is no section of this launcher"),
    "NeMo-Run": (RECIPE + "nemo_run: {}\n", "f.yaml:2:", "nemo_run is no section of this launcher"),
    "a section that is a list": (RECIPE + "slurm: [nodes]\n", "f.yaml:2:", "slurm is not a mapping of fields"),
    "a section that is text": (RECIPE + "slurm: a3m\n", "f.yaml:2:", "slurm is not a mapping of fields"),
}

#: Name -> (line of the section, key, what).
KEYS: dict[str, tuple[str, str, str]] = {
    "a typo": ("nods: 2", "f.yaml:3", "slurm has no key nods. Did you mean nodes?"),
    "a typo of AutoModel's own": ("extra_mount: []", "f.yaml:3", "Did you mean extra_mounts?"),
    "a dash": ("job-name: x", "f.yaml:3", "Did you mean job_name?"),
    "a key of SkyPilot": ("accelerators: H100:8", "f.yaml:3", "slurm has no key accelerators"),
    "a key that is a number": ("7: x", "f.yaml:3", "slurm has no key 7"),
    "nodes in quotes": ('nodes: "2"', "slurm.nodes", "'2' is not a whole number: write it without quotes"),
    "half a node": ("nodes: 1.5", "slurm.nodes", "1.5 is not a whole number"),
    "no nodes": ("nodes: 0", "slurm.nodes", "0 is less than 1"),
    "true nodes": ("nodes: true", "slurm.nodes", "true is not a whole number"),
    "a list of nodes": ("nodes: [1, 2]", "slurm.nodes", "is not a whole number"),
    "nodes that are null": ("nodes:", "slurm.nodes", "null is not a whole number"),
    "a time without quotes": ("time: 12:00:00", "slurm.time", 'quote it, as in "12:00:00"'),
    "minutes without quotes": ("time: 90", "slurm.time", "quote it"),
    "a time in words": ("time: 2 hours", "slurm.time", "is not a duration"),
    "a time out of range": ('time: "1:99:00"', "slurm.time", "is not a duration"),
    "a margin without quotes": ("margin: 5:00", "slurm.margin", "quote it"),
    "a number as account": ("account: 123", "slurm.account", "123 is not text: quote it"),
    "partition no": ("partition: no", "slurm.partition", "false is not text: quote it"),
    "an empty partition": ("partition: ''", "slurm.partition", "it is empty"),
    "a low port": ("master_port: 80", "slurm.master_port", "80 is not a port from 1024 to 65535"),
    "a port in quotes": ('master_port: "13742"', "slurm.master_port", "write it without quotes"),
    "an image in a bucket": ("container_image: gs://b/i.sqsh", "slurm.container_image", "is in a bucket"),
    "a relative image": ("container_image: ./i.sqsh", "slurm.container_image", "not an absolute path"),
    "mounts without a container": ("extra_mounts: [/a:/b]", "slurm.extra_mounts", "no effect without a container"),
    "a source without a container": ("nemo_mount: /opt/Automodel", "slurm.nemo_mount", "no effect without a cont"),
    "a relative cache": ("hf_home: cache", "slurm.hf_home", "'cache' is not an absolute path"),
    "a cache with ~": ("hf_home: ~/hf", "slurm.hf_home", "Write it from / on, or with ${HOME}"),
    "a cache twice": ("{hf_home: /a, env_vars: {HF_HOME: /b}}", "slurm.hf_home", "env_vars has HF_HOME, too"),
    "variables in a list": ("env_vars: [A=1]", "slurm.env_vars", "a list is not a mapping of names to values"),
    "a variable without value": ("env_vars: {A: }", "slurm.env_vars", "A has no value"),
    "a variable that is a list": ("env_vars: {A: [1]}", "slurm.env_vars", "A is a list"),
    "a variable's name with a dash": ("env_vars: {A-B: x}", "slurm.env_vars", "not a name that every shell passes on"),
    "a switch in quotes": ('exclusive: "yes"', "slurm.exclusive", "is neither true nor false"),
    "a launcher that is none": ("launcher: mpirun", "slurm.launcher", "is none of torchrun, "),
    "a cause that is none": ("resume_on: preemted", "slurm.resume_on", "Did you mean preempted?"),
    "an option that a field says": ("sbatch_args: [--nodes=3]", "slurm.sbatch_args", "Use nodes instead"),
    "a variable that is not set": ("account: ${NOT_SET}", "f.yaml:3: slurm.account", "the variable NOT_SET is not set"),
    "… of OmegaConf": ("account: ${oc.env:NOT_SET}", "slurm.account", "the variable NOT_SET is not set"),
    "… in a list": ("srun_args: [--x, '--y=${NOT_SET}']", "slurm.srun_args", "the variable NOT_SET is not set"),
    "… in a default": ("account: ${NOT_SET:-${NOT_SET}}", "slurm.account", "the variable NOT_SET is not set"),
    "… of the job": ("env_vars: {A: '${NOT_SET}'}", "f.yaml:3: slurm.env_vars.A", "the variable NOT_SET is not set"),
    "a variable without end": ("account: ${NUMBER", "slurm.account", "is not closed"),
    "a variable without name": ("account: ${}", "slurm.account", "names no variable"),
    "an operator of other shells": ("account: ${NUMBER:+x}", "slurm.account", "names no variable"),
    "another resolver": ("account: ${oc.decode:NUMBER}", "slurm.account", "names no variable"),
    "a variable that is no number": ("nodes: ${NUMBER}", "slurm.nodes", "'two' is not a whole number"),
    "a secret account": ("account: x${A_TOKEN}", "slurm.account", "the value of the secret A_TOKEN would be written"),
    "a secret argument": ("sbatch_args: ['--x=${A_TOKEN}']", "slurm.sbatch_args", "the secret A_TOKEN would be"),
}  # fmt: skip

MOUNTS = {
    "three colons": ("/a:/b:ro:x", "is not a mount"),
    "no destination": ("{source: /a}", "a mount needs dest"),
    "a key that there is not": ("{source: /a, dest: /b, type: x}", "a mount has no type"),
    "a number": ("7", "7 is not a mount"),
    "a relative source": ("a:/b", "'a' is not an absolute path"),
    "over the whole image": ("/a:/", "would hide the image"),
    "options that are none": ("'/a:/b:r o'", "are no options of a mount"),
}


def test_there_are_many() -> None:
    assert len(SYNTAX) + len(WHAT) + len(KEYS) + len(MOUNTS) >= 90


@pytest.mark.parametrize("case", [*SYNTAX, *WHAT])
def test_files(case: str, refused: Refused) -> None:
    content, where, what = {**SYNTAX, **WHAT}[case]
    Path("f.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    said = refused()
    assert f"run.py: error: {where}" in said and what in said, said
    if case not in ("a file that is not there",):
        assert len(said.splitlines()) == 1, said


@pytest.mark.parametrize("case", KEYS)
def test_keys(case: str, refused: Refused) -> None:
    line, where, what = KEYS[case]
    if line.startswith("{"):
        Path("f.yaml").write_text(f"{RECIPE}slurm:\n  {line}\n")
    else:
        Path("f.yaml").write_text(slurm(line))
    (said,) = refused().splitlines()
    assert said.startswith("run.py: error: f.yaml:3") and where in said and what in said, said


@pytest.mark.parametrize("case", MOUNTS)
@pytest.mark.parametrize("key", ["extra_mounts", "container_mounts"])
def test_mounts(case: str, key: str, refused: Refused) -> None:
    mount, what = MOUNTS[case]
    Path("f.yaml").write_text(slurm("container_image: /i.sqsh", f"{key}: [{mount}]"))
    (said,) = refused().splitlines()
    assert said.startswith(f"run.py: error: f.yaml:4: slurm.{key}:") and what in said, said


def test_all_problems_of_a_file_at_once(refused: Refused) -> None:
    Path("f.yaml").write_text(slurm("nods: 2", "time: 12:00:00", "account: ${NOT_SET}", "extra_mounts: /a:/b"))
    said = refused("-c", "f.yaml", "--partiton", "x")
    assert sorted(re.findall(r"f\.yaml:([0-9])", said)) == ["3", "4", "5", "6", "6"], said
    assert "neither run.py nor the recipe has --partiton. Did you mean --partition?" in said


def test_no_file_at_all(refused: Refused, tmp_path: Path) -> None:
    assert "f.yaml: cannot be read: No such file or directory" in refused()
    assert "it is a directory" in refused("-c", ".")
    os.mkfifo("pipe")
    assert "pipe: it is a named pipe" in refused("-c", "pipe")
    assert "-c: its value is empty" in refused("-c", "")
    assert "finetune llm needs a file" in refused("finetune", "llm")
    assert "'finetune lm' is no command" in refused("finetune", "lm", "-c", "f.yaml")


def test_words_that_contradict_the_file(refused: Refused) -> None:
    Path("f.yaml").write_text(slurm("nodes: 1"))
    Path("s.py").write_text("")
    assert "-c and -s exclude each other" in refused("-c", "f.yaml", "-s", "s.py")
    assert "-e/--executor: the file has a section slurm, and local is for local" in refused(
        "-c", "f.yaml", "-e", "local"
    )
    Path("local.yaml").write_text("executor: local\n")
    assert "--config: the file has a section slurm, and local.yaml is for local" in refused(
        "-c", "f.yaml", "--config", "local.yaml"
    )
    assert "there is no profile nowhere" in refused("-c", "f.yaml", "-e", "nowhere")
    assert "'model.x=1' is no override of the recipe. Write --model.x=1" in refused("-c", "f.yaml", "model.x=1")
    assert "recipe is 'mine.train', which has no x" in refused("-c", "f.yaml", "--recipe.x=1")
    Path("f.yaml").write_text(RECIPE)
    assert "nodes is for slurm; local has no use for it" in refused("-c", "f.yaml", "-n", "2")
