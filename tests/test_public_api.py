"""The public names, and what importing them costs."""

import subprocess
import sys

import nemo_launch

HEAVY = {"fiddle", "torch", "sky", "ray", "jinja2", "rich", "cattrs", "yaml", "nemo_run", "dataclasses", "subprocess"}


def test_every_public_name_resolves() -> None:
    assert sorted(nemo_launch.__all__) == nemo_launch.__all__
    for name in nemo_launch.__all__:
        assert getattr(nemo_launch, name) is not None
    assert dir(nemo_launch) == nemo_launch.__all__, "completion shows what is public, and nothing else"


def test_an_unknown_name_is_an_attribute_error() -> None:
    try:
        nemo_launch.Experimnt  # noqa: B018
    except AttributeError as error:
        assert "Experimnt" in str(error)
    else:
        raise AssertionError("resolved")


def test_the_lazy_table_and_the_typed_imports_name_the_same_things() -> None:
    assert set(nemo_launch._WHERE) | {"__version__"} == set(nemo_launch.__all__)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import nemo_launch; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    assert modules & HEAVY == set()
    assert set(done.stdout.split()) <= {"nemo_launch", "__future__"}, "the package itself is all that an import loads"


def test_importing_has_no_side_effects() -> None:
    code = (
        "import os, logging, random, sys\n"
        "before = (dict(os.environ), os.getcwd(), list(logging.root.handlers), logging.root.level, random.getstate())\n"
        "import nemo_launch\n"
        "for name in nemo_launch.__all__: getattr(nemo_launch, name)\n"
        "after = (dict(os.environ), os.getcwd(), list(logging.root.handlers), logging.root.level, random.getstate())\n"
        "assert before == after"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_objects_look_like_tells_no_secret() -> None:
    env_vars = {"WANDB_API_KEY": "s3cret", "GREETING": "hello"}
    slurm = nemo_launch.SlurmExecutor(nodes=2, env_vars=env_vars)
    local = nemo_launch.LocalExecutor(env_vars=env_vars)
    experiment = nemo_launch.Experiment("demo", slurm)
    experiment.add(nemo_launch.Script(inline="true", env=env_vars), name="train")
    assert repr(slurm).startswith("SlurmExecutor(SlurmConfig(")
    assert "nodes=2" in repr(slurm)
    assert repr(experiment) == "Experiment('demo', tasks=['train'])"
    for shown in (repr(slurm), repr(local), repr(experiment)):
        assert "s3cret" not in shown
