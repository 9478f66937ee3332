"""The text of squeue, sacct and sbatch, as seen on real clusters."""

from __future__ import annotations

import pytest

from nemo_launch.executors.base import Handle
from nemo_launch.executors.slurm import commands
from nemo_launch.executors.slurm.query import SEPARATOR, Row, Slurm, parse_sacct, parse_squeue, unreachable
from nemo_launch.executors.slurm.submit import command, ids
from nemo_launch.transport import CommandMissing, Completed, LocalTransport


@pytest.mark.parametrize(
    ("said", "handle"),
    [
        ("42\n", Handle("42")),
        ("42;alpha\n", Handle("42", cluster="alpha")),
        ("Welcome to node 17\n* 3 jobs are waiting *\n42\n", Handle("42")),
        ("2026\n42\n", Handle("42")),
        ("Submitted batch job 42\n", None),
        ("maintenance on 12.06. at 17\n", None),
        ("", None),
    ],
)
def test_an_id_comes_only_from_a_line_that_is_one(said: str, handle: Handle | None) -> None:
    assert ids(said)[-1:] == ([handle] if handle else [])


def test_a_dependant_is_removed_when_it_can_never_start() -> None:
    assert command("/x/job.sh") == ("sbatch", "--parsable", "/x/job.sh")
    assert command("/x/job.sh", [Handle("4"), Handle("5")]) == (
        "sbatch", "--parsable", "--dependency=afterok:4:5", "--kill-on-invalid-dep=yes", "/x/job.sh",
    )  # fmt: skip


def line(*fields: str) -> str:
    return SEPARATOR.join(fields) + "\n"


def test_rows_of_squeue() -> None:
    text = "CLUSTER: alpha\n" + line("42", "PENDING", "Priority", "1700000000", "N/A", "N/A", "", "/h/a b|c/job.sh")
    text += line("43", "RUNNING", "None", "1700000000", "1700000010", "1700003610", "a3m-[0-1]", "(null)")
    assert parse_squeue(text) == [
        Row("42", "PENDING", "Priority", 1700000000.0, None, None, "", "/h/a b|c/job.sh"),
        Row("43", "RUNNING", "", 1700000000.0, 1700000010.0, 1700003610.0, "a3m-[0-1]", "(null)"),
    ]


def test_rows_of_folders_with_strange_names() -> None:
    path = f"/h/a\u2028b\x0bc{SEPARATOR}d/job.sh"
    assert parse_squeue(line("42", "RUNNING", "None", "1", "1", "1", "n", path))[0].command == path
    times = ("1", "1", "1")
    (row,) = parse_sacct(line("42", "RUNNING", "None", *times, "n", "0:0", f"sbatch {path}"))
    assert row.command == f"sbatch {path}"


def test_rows_of_sacct() -> None:
    text = line(
        "42", "CANCELLED by 1001", "None", "1700000000", "None", "1700000009", "None assigned", "0:0", "sbatch x"
    )
    text += line("43", "FAILED", "None", "1700000000", "1700000001", "1700000002", "a3m-0", "0:53", "sbatch /j.sh")
    text += line("44", "FAILED", "None", "1700000000", "1700000001", "1700000002", "a3m-0", "7:0")
    assert parse_sacct(text) == [
        Row("42", "CANCELLED by 1001", "", 1700000000.0, None, 1700000009.0, "", "sbatch x", 0, None),
        Row("43", "FAILED", "", 1700000000.0, 1700000001.0, 1700000002.0, "a3m-0", "sbatch /j.sh", 0, 53),
        Row("44", "FAILED", "", 1700000000.0, 1700000001.0, 1700000002.0, "a3m-0", "", 7, None),
    ]


@pytest.mark.parametrize("garbage", ["", "\n", "slurm_load_jobs error: x\n", SEPARATOR * 3, "42|RUNNING\n"])
def test_lines_that_are_no_rows_are_passed_over(garbage: str) -> None:
    assert parse_squeue(garbage) == parse_sacct(garbage) == []


class Says(LocalTransport):
    """Answers every command with one text."""

    def __init__(self, *answers: Completed) -> None:
        self.answers, self.argvs = list(answers), []  # type: ignore[var-annotated]

    def run(self, argv, **_):  # type: ignore[no-untyped-def]
        self.argvs.append(list(argv))
        return self.answers.pop(0)


def test_an_unknown_id_is_an_answer_and_a_silent_controller_is_none() -> None:
    unknown = Completed(1, "", "slurm_load_jobs error: Invalid job id specified\n")
    away = Completed(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    assert Slurm(Says(unknown)).squeue(["42"]).error == ""
    assert "connect failure" in Slurm(Says(away)).squeue(["42"]).error


def test_accounting_that_does_not_exist_is_told_from_accounting_that_is_away() -> None:
    none = Slurm(Says(Completed(1, "", "Slurm accounting storage is disabled\n"))).sacct(["42"], 0)
    away = Slurm(Says(Completed(1, "", "sacct: error: Problem talking to the database\n"))).sacct(["42"], 0)
    assert none.disabled and not away.disabled and away.error


class Lacks(LocalTransport):
    """Has none of Slurm's commands."""

    def run(self, argv, **_):  # type: ignore[no-untyped-def]
        raise CommandMissing(f"{argv[0]} was not found on PATH.")


def test_a_site_without_the_command_keeps_no_accounting_and_one_without_squeue_is_none() -> None:
    assert Slurm(Lacks()).sacct(["42"], 0).disabled
    with pytest.raises(CommandMissing, match="squeue"):
        Slurm(Lacks()).squeue(["42"])


def test_an_old_sacct_that_knows_no_submit_line_is_asked_without() -> None:
    says = Says(Completed(1, "", 'sacct: fatal: Invalid field requested: "SubmitLine"'), Completed(0, "", ""))
    assert Slurm(says).sacct(["42"], 0).error == ""
    assert "SubmitLine" in says.argvs[0][-1] and "SubmitLine" not in says.argvs[1][-1]


def test_many_ids_are_asked_for_as_the_users_queue() -> None:
    says = Says(Completed(0, "", ""), Completed(0, "", ""))
    slurm = Slurm(says)
    slurm.squeue([str(n) for n in range(100)])
    slurm.squeue([str(n) for n in range(101)])
    assert "-j" in says.argvs[0] and "--me" not in says.argvs[0]
    assert "--me" in says.argvs[1] and "-j" not in says.argvs[1]


def test_a_cluster_is_asked_by_name() -> None:
    says = Says(Completed(0, "", ""))
    Slurm(says).squeue(["42"], "alpha")
    assert says.argvs[0][says.argvs[0].index("-M") + 1] == "alpha"


def test_questions_are_asked_in_an_environment_of_their_own() -> None:
    around = {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SQUEUE_STATES": "PD", "SQUEUE_FORMAT": "%i",
        "SACCT_FORMAT": "JobID", "SINFO_FORMAT": "%P", "SLURM_TIME_FORMAT": "relative", "SLURM_CLUSTERS": "other",
        "LC_ALL": "de_DE.UTF-8", "SLURM_JOB_ID": "7",
    }  # fmt: skip
    assert commands.query(around) == {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",
    }  # fmt: skip


def test_words_of_a_controller_that_is_away() -> None:
    assert unreachable("sbatch: error: Batch job submission failed: Unable to contact slurm controller")
    assert unreachable("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    assert not unreachable("sbatch: error: Batch job submission failed: Invalid account or account/partition")
