"""Plain values become config dataclasses; whatever is wrong with them is said at once, by field."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from nemo_launch.config.durations import Duration
from nemo_launch.config.executor import ExecutorConfig, LocalConfig, SlurmConfig
from nemo_launch.config.mounts import VolumeMapping
from nemo_launch.config.structure import given, normal, structure, unstructure
from nemo_launch.errors import InputError


def refused(values: dict[Any, Any], cls: type[ExecutorConfig] = SlurmConfig, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        structure(cls, values, **how)
    return str(caught.value)


def test_values_of_every_type() -> None:
    config = structure(
        SlurmConfig,
        {
            "nodes": 2,
            "time": "1-12",
            "margin": timedelta(minutes=5),
            "exclusive": True,
            "launcher": "srun",
            "partition": "a3m",
            "mem": 0,
            "secrets": ["HF_TOKEN"],
            "container_mounts": ["/data", "/a:/b:ro", {"source": "/c", "dest": "/d"}, VolumeMapping("/e", "/f")],
            "container_mount_home": None,
        },
    )
    assert config == SlurmConfig(
        nodes=2,
        time=Duration(36 * 3600),
        margin=Duration(300),
        exclusive=True,
        launcher="srun",
        partition="a3m",
        mem="0",
        secrets=("HF_TOKEN",),
        container_mounts=(
            VolumeMapping("/data", "/data"),
            VolumeMapping("/a", "/b", "ro"),
            VolumeMapping("/c", "/d"),
            VolumeMapping("/e", "/f"),
        ),
    )


def test_env_values_become_the_text_that_yaml_prints() -> None:
    env = structure(LocalConfig, {"env_vars": {"A": "x", "B": 1, "C": 1.5, "D": True, "E": False, "F": ""}}).env_vars
    assert env == {"A": "x", "B": "1", "C": "1.5", "D": "true", "E": "false", "F": ""}


def test_null_means_the_default() -> None:
    assert structure(SlurmConfig, {"partition": None, "time": None, "launcher": None}) == SlurmConfig()


BAD: list[tuple[dict[Any, Any], str]] = [
    ({"nodes": "2"}, "nodes: '2' is not a whole number: write it without quotes"),
    ({"nodes": "two"}, "nodes: 'two' is not a whole number"),
    ({"nodes": 2.0}, "nodes: 2.0 is not a whole number"),
    ({"nodes": True}, "nodes: true is not a whole number"),
    ({"nodes": None}, "nodes: null is not a whole number"),
    ({"nodes": [2]}, "nodes: [2] is not a whole number"),
    ({"nodes": 0}, "nodes: 0 is less than 1"),
    ({"nodes": -1}, "nodes: -1 is less than 1"),
    ({"ntasks_per_node": 0}, "ntasks_per_node: 0 is less than 1"),
    ({"cpus_per_task": 0}, "cpus_per_task: 0 is less than 1"),
    ({"gpus_per_node": -1}, "gpus_per_node: -1 is less than 0"),
    ({"exclusive": "true"}, "exclusive: 'true' is neither true nor false: write it without quotes"),
    ({"exclusive": 1}, "exclusive: 1 is neither true nor false"),
    ({"partition": False}, "partition: false is not text: quote it"),
    ({"nodelist": 12}, "nodelist: 12 is not text: quote it"),
    ({"partition": ["a"]}, "partition: ['a'] is not text"),
    ({"partition": ""}, "partition: it is empty"),
    ({"partition": "a\n#SBATCH --x"}, "partition: it holds a line break"),
    ({"job_name": "a\0b"}, "job_name: it holds a NUL byte"),
    ({"launcher": "torchrn"}, "launcher: 'torchrn' is none of torchrun, ft, srun, none. Did you mean torchrun?"),
    ({"launcher": None, "time": 43200}, 'time: 43200 is a bare number'),
    ({"time": "0:240:0"}, "time: '0:240:0' is not a duration; valid forms: "),
    ({"grace": "10"}, "grace is for local; slurm has no use for it"),
    ({"secrets": "HF_TOKEN"}, "secrets: text is not a list: write [value]"),
    ({"secrets": ["A", 3]}, "secrets: entry 2: 3 is not text"),
    ({"secrets": {"A": "b"}}, "secrets: a mapping is not a list"),
    ({"srun_args": ["-v", None]}, "srun_args: entry 2: null is not text"),
    ({"container_mounts": ["a:b:c:d"]}, "container_mounts: entry 1: 'a:b:c:d' is not a mount"),
    ({"container_mounts": [":/b"]}, "container_mounts: entry 1: ':/b' is not a mount"),
    ({"container_mounts": [{"source": "/a", "dst": "/b"}]}, "a mount has no dst, only source, dest, options. Did you"),
    ({"container_mounts": [{"source": "/a"}]}, "a mount needs dest"),
    ({"container_mounts": [{"source": "/a", "dest": 1}]}, "dest of a mount is 1, not text"),
    ({"container_mounts": ["rel:/x"]}, "container_mounts: 'rel' is not an absolute path"),
    ({"container_mounts": ["/data dir:/d"]}, "'/data dir' holds ' ', which pyxis cannot mount"),
    ({"container_mounts": ["/a,b:/c"]}, "'/a,b' holds ',', which pyxis cannot mount"),
    ({"container_mounts": ["/a:/"]}, "container_mounts: /a at / would hide the image"),
    ({"container_mounts": ["/a:/b:ro,rprivate"]}, "'ro,rprivate' are no options of a mount. Join several with +"),
    ({"container_image": "gs://b/i.sqsh"}, "gcloud storage cp gs://b/i.sqsh"),
    ({"container_image": "images/nemo.sqsh"}, "container_image: 'images/nemo.sqsh' is a file and not an absolute path"),
    ({"container_image": "~/nemo"}, "container_image: '~/nemo' is a file and not an absolute path"),
    ({"container_name": "a b"}, "container_name: 'a b' cannot be a container's name"),
    ({"env_vars": ["A=1"]}, "env_vars: a list is not a mapping of names to values"),
    ({"env_vars": {"A": None}}, 'env_vars: A has no value: write "" for an empty one'),
    ({"env_vars": {"A": [1]}}, "env_vars: A is a list, not text or a number"),
    ({"env_vars": {1: "x"}}, "env_vars: the name 1 is not text: quote it"),
    ({"work_dir": "runs"}, "work_dir: 'runs' is not an absolute path"),
    ({"cache_dir": "~/cache"}, "cache_dir: '~/cache' is not an absolute path"),
    ({"master_port": 80}, "master_port: 80 is not a port from 1024 to 65535"),
    ({"master_port": 70000}, "master_port: 70000 is not a port"),
    ({"mem": "64GB"}, "mem: '64GB' is not an amount of memory. Write 64G."),
    ({"mem": "lots"}, "mem: 'lots' is not an amount of memory. Write it as in 64G"),
    ({"mem": "64G", "mem_per_cpu": "1G"}, "mem and mem_per_cpu exclude each other"),
    ({"mem_per_cpu": "1G", "mem_per_gpu": "1G"}, "mem_per_cpu and mem_per_gpu exclude each other"),
    ({"time": "10", "margin": "10"}, "margin: 00:10:00 before the limit is before the start: time is 00:10:00"),
    ({"signal": "SIGUSR1"}, "signal: 'SIGUSR1' is not a signal's name. Write USR1."),
    ({"signal": "USR3"}, "signal: 'USR3' is not a signal's name. Write it as in USR1."),
    ({"signal": "KILL"}, "signal: no process can act on KILL"),
    ({"signal": 10}, "signal: 10 is not text"),
    ({"srun_args": ["program"]}, "srun_args: 'program' is not an option of srun"),
    ({"dependency": "afterok"}, "dependency: 'afterok' is not a dependency on jobs of Slurm. Write it as in"),
    ({"dependency": "afterok:12,after:x"}, "dependency: 'afterok:12,after:x' is not a dependency"),
    ({"dependency": "123"}, "dependency: '123' is not a dependency"),
    ({"sbatch_args": ["--depend=afterok:1"]}, "Use dependency instead."),
    ({"sbatch_args": ["--clusters=other"]}, "jobs of other clusters are not part of this version"),
    ({"sbatch_args": ["gres=gpu"]}, "sbatch_args: 'gres=gpu' is not an option of sbatch"),
    ({"sbatch_args": ["--time=3"]}, "Use time instead."),
    ({"sbatch_args": ["--mem-per-cpu=1G"]}, "Use mem_per_cpu instead."),
    ({"sbatch_args": ["-N2"]}, "Use nodes instead."),
    ({"nods": 2}, "nods: slurm has no field nods. Did you mean nodes?"),
    ({"ntasks-per-node": 2}, "Did you mean ntasks_per_node?"),
    ({"image": "x"}, "Did you mean container_image?"),
    ({"zzz": 2}, "slurm has no field zzz. The fields are: work_dir, "),
    ({1: 2}, "slurm has no field 1."),
    ({"max_parallel": 2}, "max_parallel is for local; slurm has no use for it"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "message"), BAD, ids=lambda value: repr(value) if isinstance(value, dict) else "")
def test_bad_values_are_refused_by_field_with_what_is_expected(values: dict[Any, Any], message: str) -> None:
    assert message in refused(values)


def test_all_problems_come_in_one_error_each_with_its_place() -> None:
    text = refused(
        {"nods": 2, "nodes": "two", "time": "soon", "mem": "1G", "mem_per_cpu": "1G", "srun_args": [1, 2]},
        where="SlurmExecutor",
    )
    assert [line.split(": ")[:2] for line in text.splitlines()] == [
        ["SlurmExecutor", "nods"],
        ["SlurmExecutor", "nodes"],
        ["SlurmExecutor", "time"],
        ["SlurmExecutor", "srun_args"],
        ["SlurmExecutor", "srun_args"],
        ["SlurmExecutor", "mem_per_cpu"],
    ]


def test_each_problem_stands_where_its_value_was_given() -> None:
    text = refused({"nodes": 0, "nods": 1}, where=lambda key: f"--{key}")
    assert text.splitlines() == ["--nods: slurm has no field nods. Did you mean nodes?", "--nodes: 0 is less than 1"]


def test_no_error_shows_what_may_be_a_secret() -> None:
    values = {"env_vars": "HF_TOKEN=s3cr3t", "secrets": ["HF_TOKEN=s3cr3t"], "passthrough": "s3cr3t"}
    text = refused(values) + refused({"env_vars": {"A_TOKEN": ["s3cr3t"]}}) + refused({"secrets": "s3cr3t"})
    assert "s3cr3t" not in text
    assert "HF_TOKEN=… gives a value where only names may stand" in text


def test_a_local_executor_names_whose_field_it_is() -> None:
    assert "nodes is for slurm; local has no use for it" in refused({"nodes": 2}, LocalConfig)
    assert "job_name is for slurm; local has no use for it" in refused({"job_name": "x"}, LocalConfig)
    assert "grace: null is not a duration: leave the field out" in refused({"grace": None}, LocalConfig)
    assert "max_parallel: 0 is less than 1" in refused({"max_parallel": 0}, LocalConfig)
    assert "'srun' is none of torchrun, none" in refused({"launcher": "srun"}, LocalConfig)


def test_from_the_command_line_everything_is_text() -> None:
    values = {"nodes": "2", "time": "10", "exclusive": "true", "snapshot": "no", "mem": "0", "secrets": ["A"]}
    config = structure(SlurmConfig, values, from_text=True)
    assert config == SlurmConfig(nodes=2, time=Duration(600), exclusive=True, snapshot=False, mem="0", secrets=("A",))
    assert type(config.mem) is type(config.secrets[0]) is str


@pytest.mark.parametrize("text", ["", "2.0", "two", "0x10", "1_000", "²", "9" * 5000])
def test_text_that_is_no_number_is_refused(text: str) -> None:
    assert "is not a whole number" in refused({"nodes": text}, from_text=True)


def test_only_the_named_keys_come_from_the_command_line() -> None:
    text = refused({"nodes": "2", "cpus_per_task": "3"}, from_text={"nodes"})
    assert text == "cpus_per_task: '3' is not a whole number: write it without quotes"


def test_a_config_made_by_hand_is_put_right_or_refused() -> None:
    loose: Any = {"time": "1:00:00", "container_mounts": ["/a:/b"], "env_vars": {"A": 1}}
    assert normal(SlurmConfig(**loose)) == structure(SlurmConfig, loose)
    with pytest.raises(InputError, match="SlurmConfig: nodes: 'x' is not a whole number"):
        normal(SlurmConfig(nodes="x"), "SlurmConfig")  # type: ignore[arg-type]


def test_an_executor_is_made_from_a_config_or_from_keywords() -> None:
    assert given(SlurmConfig, None, {"nodes": 2}, "SlurmExecutor") == SlurmConfig(nodes=2)
    assert given(SlurmConfig, SlurmConfig(nodes=2), {}, "SlurmExecutor") == SlurmConfig(nodes=2)
    with pytest.raises(InputError, match="SlurmExecutor: a config and the keywords nodes at once"):
        given(SlurmConfig, SlurmConfig(), {"nodes": 2}, "SlurmExecutor")
    with pytest.raises(InputError, match="SlurmExecutor: a LocalConfig is no SlurmConfig"):
        given(SlurmConfig, LocalConfig(), {}, "SlurmExecutor")
    with pytest.raises(InputError, match="SlurmConfig: nodes: '2' is not a whole number"):
        given(SlurmConfig, SlurmConfig(nodes="2"), {}, "SlurmExecutor")  # type: ignore[arg-type]


def test_changing_the_dict_afterwards_changes_no_config() -> None:
    env = {"A": "1"}
    config = structure(LocalConfig, {"env_vars": env})
    env["A"] = "2"
    assert config.env_vars == {"A": "1"}


one_line = st.characters(blacklist_characters="\0\n\r", blacklist_categories=["Cs"])
texts = st.text(one_line, min_size=1).filter(str.strip)
paths = st.from_regex(r"/[a-z./_-]{0,8}", fullmatch=True)
by_type: dict[str, st.SearchStrategy[Any]] = {
    "str | None": texts,
    "int": st.integers(1024, 9999),
    "int | None": st.integers(1, 99),
    "bool": st.booleans(),
    "bool | None": st.booleans(),
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
    "dict[str, str]": st.dictionaries(texts, st.text()),
    "Duration": st.integers(1, 10**6).map(Duration),
    "tuple[VolumeMapping, ...]": st.tuples(
        st.builds(VolumeMapping, paths, paths.filter(lambda p: p.strip("/")), st.sampled_from(["", "ro+rprivate"]))
    ),
}
by_name: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("work_dir", "log_dir", "cache_dir", "data_dir", "job_dir", "container_workdir"), paths),
    "mem": st.from_regex(r"[0-9]{1,5}[KMGT]?", fullmatch=True),
    "time": st.integers(10**5, 10**8).map(Duration),
    "margin": st.integers(1, 10**4).map(Duration),
    "signal": st.sampled_from(["USR1", "USR2", "HUP"]),
    "launcher": st.sampled_from(["torchrun", "none"]),
    "container_image": st.sampled_from(["/i.sqsh", "docker://nvcr.io#nvidia/nemo:25.07", "a:b"]),
    "container_name": st.sampled_from(["nemo", "a.b-c_1"]),
    "srun_args": st.lists(st.sampled_from(["-v", "--cpu-bind=none"])).map(tuple),
    "sbatch_args": st.lists(st.sampled_from(["--gres=gpu:1", "--nice"])).map(tuple),
    "dependency": st.sampled_from(["afterok:12:13_4", "afterany:7,singleton"]),
    "secrets": st.lists(st.sampled_from(["A", "HF_TOKEN"])).map(tuple),
    "slurm_type": st.none(),  # a preset fills in more than was written: tests/config/test_presets.py
    "fabric": st.none(),
    "ft_args": st.just(("--ft-log-level=INFO",)),
    "ft_max_restarts": st.integers(0, 9),
    "ft_rank_heartbeat_timeout": st.floats(0.5, 1e6),
    "ft_initial_rank_heartbeat_timeout": st.floats(0.5, 1e6),
    "nsys_trace": st.sampled_from(["cuda", "cuda,nvtx,osrt"]),
    "nsys_capture_range": st.sampled_from(["cudaProfilerApi", "nvtx"]),
    "nsys_capture_range_end": st.sampled_from(["stop", "repeat:3"]),
    "nsys_ranks": st.just((0,)),
    "nsys_output": st.sampled_from(["a/%h", "/b/"]),
    "nsys_args": st.just(("--sample=cpu",)),
    "passthrough": st.just(("http_proxy",)),
}


def configs(cls: type[ExecutorConfig]) -> st.SearchStrategy[ExecutorConfig]:
    given = {
        f.name: by_name.get(f.name, by_type.get(str(f.type), st.nothing()))
        for f in fields(cls)
        if f.name not in ("mem_per_cpu", "mem_per_gpu")  # they exclude mem
    }
    return st.fixed_dictionaries({}, optional=given).map(lambda values: cls(**values))


@hypothesis.given(configs(SlurmConfig) | configs(LocalConfig))
def test_what_is_written_as_json_is_read_back_equal(config: ExecutorConfig) -> None:
    assert structure(type(config), json.loads(json.dumps(unstructure(config)))) == config


def test_only_what_was_asked_for_is_written() -> None:
    assert unstructure(SlurmConfig(nodes=2, time=Duration(3600))) == {"nodes": 2, "time": "01:00:00"}
    assert unstructure(LocalConfig()) == {}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from([f.name for f in fields(SlurmConfig)]) | st.text()


@hypothesis.given(st.dictionaries(names, anything))
def test_whatever_is_given_the_answer_is_a_config_or_an_input_error(values: dict[str, Any]) -> None:
    try:
        config = structure(SlurmConfig, values)
    except InputError as error:
        assert error.problems
    else:
        assert config == normal(config)
