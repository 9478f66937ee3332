"""The tables of the documentation name what there is: every field, flag, variable and key, and no other."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields

import pytest

from nemo_launch.cli.flags import BY_FIELD, FLAGS
from nemo_launch.cli.parser import VERBS
from nemo_launch.config.executor import CONFIGS, ExecutorConfig, LocalConfig, SlurmConfig
from nemo_launch.config.ft import FtOptions
from nemo_launch.config.nsys import NsysOptions
from nemo_launch.executors.base import State
from tests.docs.page import PAGES, ROOT, prose
from tests.lab import Launcher

CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
#: What several configs share, in tables of its own.
SHARED = (ExecutorConfig, NsysOptions, FtOptions)
SECTIONS: dict[str, type] = {
    "Fields of every executor": ExecutorConfig,
    "LocalConfig": LocalConfig,
    "SlurmConfig": SlurmConfig,
    "Profiling with nsys": NsysOptions,
    "Fault tolerance": FtOptions,
}
_FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z0-9-]*)")


def rows(section: str, text: str = CONFIGURATION) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    body = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    return [re.split(r"\s*\|\s*", line)[1:-1] for line in lines[2:]]


def own_fields(config: type) -> dict[str, object]:
    """Fields that a config adds to those of its base, with their defaults."""
    base = () if config in SHARED else {field.name for shared in SHARED for field in fields(shared)}
    found = {}
    for field in fields(config):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name not in base:
            found[field.name] = default
    return found


def written(default: object) -> str:
    """A default as the tables show it; nothing where it is unset or empty."""
    if default is None or default in ((), {}):
        return ""
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"


@pytest.mark.parametrize("section", SECTIONS)
def test_fields_of_a_config_stand_in_its_table_with_flag_and_default(section: str) -> None:
    documented = {row[0].strip("`"): row[1:3] for row in rows(section)}
    there = {
        name: [f"`{BY_FIELD[name].shown}`" if name in BY_FIELD else "", written(default)]
        for name, default in own_fields(SECTIONS[section]).items()
    }
    assert documented == there


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_has_a_meaning(section: str) -> None:
    assert [row[0] for row in rows(section) if not row[3:] or not row[3]] == []


def test_every_launch_flag_is_described() -> None:
    described = set(_FLAG.findall("".join(line for line in CONFIGURATION.splitlines(True) if line.startswith("|"))))
    assert {flag.names[-1] for flag in FLAGS} - described == set()


def test_every_flag_that_a_page_names_exists(launcher: Launcher) -> None:
    verbs = tuple(VERBS)
    helps = [launcher(*verb, "--help").stdout for verb in [(), *((verb,) for verb in verbs)]]
    real = set(_FLAG.findall("\n".join(helps)))
    for page in PAGES:
        text = (ROOT / page).read_text()
        # Programs other than ours have flags, too: what is said of them in the prose, or in directives, is skipped.
        calls = re.findall(r"^(?:python3 run\.py|  -)(?:.*\\\n)*.*$", text, re.MULTILINE)
        ours = [re.split(r" -- |#|\|\|", call)[0] for call in calls]
        ours += re.findall(r"`run\.py ([^`]*)`", prose(text))
        named = set(_FLAG.findall("\n".join(ours)))
        assert named <= real, page
    table = {flag for row in rows("Flags that are no fields") for flag in _FLAG.findall(row[0])}
    assert table <= real


def test_every_kind_of_executor_has_its_table() -> None:
    assert {*CONFIGS.values(), *SHARED} == set(SECTIONS.values())


def test_every_state_is_explained() -> None:
    table = rows("How the state is found", (ROOT / "docs" / "slurm.md").read_text())
    assert [row[0].strip("`") for row in table] == [state.value for state in State]


def test_the_variables_of_the_readme_are_what_a_job_gets(launcher: Launcher) -> None:
    readme = (ROOT / "README.md").read_text()
    table = readme.split("| variable |")[1].split("\n\n")[0]
    promised = {name for line in table.splitlines() for name in re.findall(r"`([A-Z][A-Z_]+)`", line.split("|")[1])}
    launcher.write("env.sh", "env\n")
    folders = [word for name in ("log", "cache", "data") for word in (f"--{name}-dir", name)]
    for name in folders[1::2]:
        launcher.user.make_dir(launcher.work / name)
    done = launcher("-s", "env.sh", "--launcher", "torchrun", *folders)
    assert done.returncode == 0, done.stderr
    got = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert len(promised) > 10
    assert promised - got == set()


def test_the_json_keys_of_a_task_are_those_of_the_page(launcher: Launcher) -> None:
    import json

    launcher.write("ok.sh", "true\n")
    (task,) = json.loads(launcher("-s", "ok.sh", "--json").stdout)["tasks"]
    table = rows("JSON", (ROOT / "docs" / "python.md").read_text())
    named = {key for row in table for key in re.findall(r"`(\w+)`", row[0])}
    assert named == set(task)
