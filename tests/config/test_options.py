"""Which further options of sbatch and srun are refused: also cut short, combined, or with the value in the word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_launch.config.options import problems


def said(program: str, *options: str) -> list[str]:
    return [str(problem) for problem in problems(program, options)]


GUARDED = {
    "sbatch": [
        "--array", "--output", "--error", "--input", "--open-mode", "--parsable", "--quiet", "--wait", "--wrap",
        "--dependency", "--kill-on-invalid-dep", "--requeue", "--no-requeue", "--comment", "--test-only", "--export",
        "--export-file", "--chdir", "--nodes", "--ntasks", "--ntasks-per-node", "--time", "--mem", "--exclusive",
        "--signal", "--job-name", "--account", "--help", "--uid", "--get-user-env", "--container-image",
    ],
    "srun": [
        "--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task", "--gpus-per-node", "--output", "--error",
        "--input", "--label", "--multi-prog", "--jobid", "--export", "--export-file", "--kill-on-bad-exit", "--wait",
        "--chdir", "--mpi", "--nodelist", "--exclude", "--partition", "--pty", "--relative", "--preserve-env",
        "--test-only", "--help", "--container-image", "--container-mounts", "--no-container-mount-home",
    ],
}  # fmt: skip
PAIRS = [(program, option) for program, options in GUARDED.items() for option in options]


@given(pair=st.sampled_from(PAIRS), data=st.data(), value=st.sampled_from(["", "=x", "=0-3", "="]))
def test_whatever_getopt_takes_for_a_guarded_option_is_refused(
    pair: tuple[str, str], data: st.DataObject, value: str
) -> None:
    program, option = pair
    cut = option[: data.draw(st.integers(3, len(option)))] + value
    if cut.split("=")[0] == "--gpus":
        assert said(program, cut) == []
    else:
        assert len(said(program, cut)) == 1, cut


@pytest.mark.parametrize(
    ("program", "option", "part"),
    [
        ("sbatch", "--arra=0-3", "one task for each element"),
        ("sbatch", "--outp=/x", "the log is always"),
        ("sbatch", "--comm=x", "which script"),
        ("sbatch", "--requ", "resume_on"),
        ("sbatch", "--depe=afterok:1", "Use dependency instead"),
        ("sbatch", "-Ha0-3", "must stand alone"),
        ("sbatch", "-a0-3", "one task for each element"),
        ("sbatch", "-vW", "must stand alone"),
        ("sbatch", "-N2", "Use nodes instead."),
        ("sbatch", "--cpus-per=2", "Use cpus_per_task instead."),
        ("sbatch", "-9", "must stand alone"),
        ("sbatch", "hello", "is not an option of sbatch"),
        ("sbatch", "--", "is not an option of sbatch"),
        ("srun", "-", "is not an option of srun"),
        ("srun", "program", "is not an option of srun"),
        ("srun", "-n3", "Use nodes and ntasks_per_node instead."),
        ("srun", "--ntas=7", "Use nodes and ntasks_per_node instead."),
        ("srun", "-N1", "Use nodes instead."),
        ("srun", "-o x", "the log is always"),
        ("srun", "-l", "node and rank"),
        ("srun", "-ul", "must stand alone"),
        ("srun", "-K0", "ends the others"),
        ("srun", "--expor=NONE", "env_vars"),
        ("srun", "--jobi=7", "belong to this job"),
    ],
)
def test_the_reason_is_told_once(program: str, option: str, part: str) -> None:
    (found,) = said(program, option)
    assert part in found and repr(option) in found


@pytest.mark.parametrize(
    ("program", "option"),
    [
        ("sbatch", "--gres=shard:1"), ("sbatch", "--gpus=4"), ("sbatch", "--nice=5"), ("sbatch", "--nice"),
        ("sbatch", "--hold"), ("sbatch", "-H"), ("sbatch", "-L4"), ("sbatch", "--licenses=x:1"),
        ("sbatch", "--begin=now+1hour"), ("sbatch", "--wait-all-nodes=1"), ("sbatch", "--time-min=5"),
        ("srun", "--cpu-bind=cores"), ("srun", "--mem=0"), ("srun", "-v"), ("srun", "-u"), ("srun", "--overlap"),
        ("srun", "--exclusive"), ("srun", "--distribution=block"), ("srun", "-mblock"), ("srun", "--network=x"),
    ],
)  # fmt: skip
def test_others_are_free(program: str, option: str) -> None:
    assert said(program, option) == []
