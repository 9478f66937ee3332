"""What an AutoModel run is made of: variables, sections, overrides, GPUs, advice, and the program on the node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_launch import runner
from nemo_launch.automodel import advice, files, gpus, overrides
from nemo_launch.automodel.commands import MODULES
from nemo_launch.cli.parser import COMMANDS
from nemo_launch.config import sections, structure
from nemo_launch.config.executor import SlurmConfig
from nemo_launch.config.loading import parse
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.variables import expand

ENV = {"HOME": "/home/u", "EMPTY": "", "HF_TOKEN": "hf_x", "TOKENIZERS_PARALLELISM": "false", "NODES": "3"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain $HOME", "plain $HOME"),
        ("${HOME}/hf", "/home/u/hf"),
        ("${oc.env:HOME}/hf", "/home/u/hf"),
        ("${EMPTY:-x}${EMPTY,x}", "x"),
        ("${NOT:-x:y,z}", "x:y,z"),
        ("${NOT, x}", "x"),
        ("${oc.env:NOT,x}", "x"),
        ("${NOT:-}", ""),
        ("${NOT:-${HOME}/x}", "/home/u/x"),
        ("${HOME}${HOME}}", "/home/u/home/u}"),
    ],
)
def test_variables(text: str, value: str) -> None:
    assert expand(text, ENV).text == value


def test_which_variables_are_secret() -> None:
    assert expand("https://u:${HF_TOKEN}@h", ENV).secrets == ("HF_TOKEN",)
    assert expand("${NOT:-${HF_TOKEN}}", ENV).secrets == ("HF_TOKEN",)
    assert expand("${TOKENIZERS_PARALLELISM}${HF_TOKENS:-}", ENV).secrets == ()


def section(text: str) -> sections.Section:
    made = sections.read(parse(text, "f.yaml"), ENV)
    assert made is not None and made.problems == []
    return made


def test_the_keys_of_automodel_end_in_the_fields() -> None:
    made = section(
        "slurm:\n  nodes: ${NODES}\n  container_image: /i.sqsh\n  hf_home: ${HOME}/hf\n"
        "  nemo_mount: /src:/opt/Automodel\n"
        "  extra_mounts:\n  - /a:/b\n  - /c:/d:ro\n  - {source: /e, dest: /f}\n  - /g\n"
        "  container_mounts: [/own:/own]\n"
        "  setup: echo ${HOME}\n  env_vars: {A: '${HF_TOKEN}', HF_TOKEN: '${HF_TOKEN}', B: 1.10}\n"
    )
    config = structure.structure(SlurmConfig, made.layer.values, "slurm", made.expanded)
    assert config.nodes == 3 and config.setup == "echo ${HOME}"
    assert config.container_mounts == tuple(
        map(
            VolumeMapping.parse,
            ["/own:/own", "/src:/opt/Automodel", "/home/u/hf:/home/u/hf", "/a:/b", "/c:/d:ro", "/e:/f", "/g:/g"],
        )
    )
    assert config.env_vars == {"B": "1.10", "HF_HOME": "/home/u/hf"}
    assert made.secret_values == {"A": "hf_x", "HF_TOKEN": "hf_x"} and "hf_x" not in repr(made)
    assert made.pythonpath == ("/opt/Automodel",)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("# top\nrecipe: a.b  # what\nmodel: {a: 1}\n", "# top\nrecipe: a.b  # what\nmodel: {a: 1}\n"),
        ("recipe: a.b\nslurm:\n  nodes: 2\n\n# m\nmodel: ${X}\n", "recipe: a.b\n\n# m\nmodel: ${X}\n"),
        ("slurm:\n  nodes: 2\nlr: 1e-5 # small\n", "lr: 1e-5 # small\n"),
        ("lr: 010\nslurm: {nodes: 2}", "lr: 010\n"),
        ("{slurm: {nodes: 2}, lr: 1}", "lr: 1\n"),
        ("slurm: {nodes: &n 2}\nlr: *n\n", "lr: 2\n"),
    ],
)
def test_the_recipe_gets_its_part_as_it_was_written(text: str, rest: str) -> None:
    assert sections.text_of_rest(parse(text, "f.yaml")) == rest


def test_overrides() -> None:
    config = {"a": {"b": 1, "c": [1, {"d": 2}]}, "e": None}
    words = ["--a.b=1e-3", "--a.c.1.d", "x y", "--e.f=[1, null]", "--g", "--h=", "--i=a: b", "--j='1'"]
    made, problems = overrides.applied(config, words)
    assert problems == []
    assert made == {
        "a": {"b": 1e-3, "c": [1, {"d": "x y"}]}, "e": {"f": [1, None]}, "g": True, "h": "", "i": "a: b", "j": "1",
    }  # fmt: skip
    assert config == {"a": {"b": 1, "c": [1, {"d": 2}]}, "e": None}
    _, problems = overrides.applied(config, ["--a.b.x=1", "--a.c.7=1", "a=1", "-x"])
    assert [problem.what for problem in problems] == [
        "a.b is 1, which has no x",
        "a.c.7: the list has 2 entries, and none is number 7",
        "'a=1' is no override of the recipe",
        "'-x' is no override of the recipe",
    ]


@pytest.mark.parametrize(
    ("listed", "visible", "count"),
    [
        ("GPU 0: H100\nGPU 1: H100\n", None, 2),
        ("GPU 0: A100 (UUID: x)\n  MIG 1g.5gb Device 0: (UUID: y)\n", None, 1),
        ("GPU 0: H100\nGPU 1: H100\n", "1", 1),
        ("GPU 0: H100\nGPU 1: H100\n", "", 0),
        ("GPU 0: H100\nGPU 1: H100\n", "-1", 0),
        ("GPU 0: H100\nGPU 1: H100\n", "0,1,2", 2),
        ("GPU 0: H100\nGPU 1: H100\n", "0,-1,1", 1),
        ("GPU 0: H100\nGPU 1: H100\n", "GPU-aa,MIG-bb", 2),
        (None, None, 3),
        (None, "0,2", 2),
    ],
)
def test_gpus_are_counted_without_torch(listed: str | None, visible: str | None, count: int, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n[ \"$1\" = -L ] && printf '{listed}'\n" if listed else "#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    folder = tmp_path / "gpus"
    for name in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (folder / name).mkdir(parents=True)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert gpus.count(env, str(folder)) == count


def test_advice() -> None:
    def said(recipe: dict[str, object], **fields: object) -> list[str]:
        return list(advice.of(recipe, structure.structure(SlurmConfig, fields)))

    assert said({}) == said({}, time="8:00:00") == []
    (line,) = said({}, resume_on="timeout")
    assert "set step_scheduler.checkpoint_interval or step_scheduler.ckpt_every_steps" in line
    assert said({"step_scheduler": {"checkpoint_interval": 100}}, resume_on="timeout") == []
    assert said({"step_scheduler": {"ckpt_every_steps": 100}}, resume_on="timeout") == []
    assert "comes 2 minutes before the limit of 00:10:00, after 8 minutes of work" in said({}, time="10")[0]
    assert "after 2 minutes of work" in said({}, time="20", margin="18")[0]
    assert said({}, time="25") == []


NODE = """
import json, sys
class Recipe:
    def __init__(self, cfg): self.cfg = cfg
    def setup(self): print("setup")
    def run_train_validation_loop(self): print(json.dumps(self.cfg)); return None
class Empty:
    def __init__(self, cfg): pass
def takes(cfg): print(json.dumps(cfg)); return 5
def main(): print(sys.argv[1:]); return True
"""


def on_node(tmp_path: Path, text: str, words: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program that travels, away from the package."""
    folder = tmp_path / "copy"
    folder.mkdir(exist_ok=True)
    (tmp_path / "f.yaml").write_text(text)
    (tmp_path / "thing.py").write_text(NODE)
    file = files.read(str(tmp_path / "f.yaml"), words)
    for name, content in file.files(str(tmp_path / file.path) if file.path else "").items():
        (folder / name).write_bytes(content)
    return subprocess.run(
        [sys.executable, "-S", str(folder / files.ENTRY), *words],
        env={"PYTHONPATH": str(tmp_path), **env}, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "code", "printed"),
    [
        ("thing.Recipe", 0, 'setup\n{"recipe": "thing.Recipe", "a": {"b": 2}}\n'),
        ("{_target_: 'thing:Recipe'}", 0, 'setup\n{"recipe": {"_target_": "thing:Recipe"}, "a": {"b": 2}}\n'),
        ("thing.takes", 5, '{"recipe": "thing.takes", "a": {"b": 2}}\n'),
        ("thing.main", 0, "['-c', '{folder}/config.yaml', '--a.b', '2']\n"),
        ("'thing:main'", 0, "['-c', '{folder}/config.yaml', '--a.b', '2']\n"),
        ("thing.py", 0, "['-c', '{folder}/config.yaml', '--a.b', '2']\n"),
        ("thing.py:takes", 5, '{"recipe": "thing.py:takes", "a": {"b": 2}}\n'),
    ],
)
def test_what_a_recipe_may_be(recipe: str, code: int, printed: str, tmp_path: Path) -> None:
    done = on_node(tmp_path, f"recipe: {recipe}\na:\n  b: 1\n", ("--a.b", "2"))
    assert (done.returncode, done.stdout) == (code, printed.replace("{folder}", str(tmp_path / "copy"))), done.stderr


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("thing.nothing", "thing has no nothing"),
        ("other.train", "there is no module other"),
        ("thing.py:nothing", "thing.py has no nothing"),
        ("TrainRecipe", "TrainRecipe has no module, and no AutoModel that knows it is here"),
        ("thing.Empty", "Empty has none of "),
    ],
)
def test_what_a_recipe_is_not(recipe: str, message: str, tmp_path: Path) -> None:
    done = on_node(tmp_path, f"recipe: {recipe}\n")
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_without_recipe_it_is_automodels_own(tmp_path: Path) -> None:
    done = on_node(tmp_path, "model: {}\n")
    assert done.returncode == 2 and "pip install nemo-automodel" in done.stderr
    package = tmp_path / "nemo_automodel" / "recipes" / "llm"
    package.mkdir(parents=True)
    (package / "train_ft.py").write_text("import sys\ndef main(path=None): print(path == sys.argv[2], sys.argv[3:])\n")
    done = on_node(tmp_path, "model: {}\n", ("--model.x=1",))
    assert (done.returncode, done.stdout) == (0, "True ['--model.x=1']\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "link", "key"),
    [
        ("step_scheduler: {checkpoint_interval: 5}\n", "checkpoints/latest", "restore_from.path"),
        ("restore_from: {path: old}\n", "checkpoints/latest", "restore_from.path"),
        ("checkpoint: {checkpoint_dir: here}\n", "here/LATEST", "checkpoint.restore_from"),
        ("step_scheduler: {ckpt_every_steps: 5}\n", "checkpoints/LATEST", "checkpoint.restore_from"),
    ],
)
def test_a_restart_goes_on_from_the_latest_checkpoint(text: str, link: str, key: str, tmp_path: Path) -> None:
    text = f"recipe: thing.takes\n{text}"
    assert "nemo_launch: restarting" not in on_node(tmp_path, text, NEMO_LAUNCH_ATTEMPT="1").stdout
    (tmp_path / link).mkdir(parents=True)
    assert "nemo_launch: restarting" not in on_node(tmp_path, text, NEMO_LAUNCH_ATTEMPT="0").stdout
    done = on_node(tmp_path, text, NEMO_LAUNCH_ATTEMPT="1")
    first, config = done.stdout.splitlines()
    assert first == f"nemo_launch: restarting from {key}={tmp_path / link}"
    assert advice.value(json.loads(config), key) == str(tmp_path / link)


def test_the_commands_are_those_of_the_modules() -> None:
    assert tuple(dict.fromkeys(command for command, _ in MODULES)) == COMMANDS


def test_the_program_travels_as_it_is() -> None:
    assert "nemo_launch." not in runner.text(files.ENTRY)
