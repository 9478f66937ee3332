"""Errors are paragraphs that a terminal survives."""

from nemo_launch.errors import InputError, Problem, SchedulerRefused
from nemo_launch.views import errors


def test_each_problem_is_a_paragraph_of_its_own() -> None:
    error = InputError([Problem("a is wrong", "--a", "Fix a."), Problem("b is wrong")])
    assert errors.paragraphs("run.py", error) == ("run.py: error: --a: a is wrong. Fix a.\nrun.py: error: b is wrong\n")


def test_what_a_scheduler_says_stays_one_paragraph_and_steers_no_terminal() -> None:
    text = errors.paragraphs("run.py", SchedulerRefused("sbatch said:\n\n\nno\x1b[2J\n"))
    assert text == "run.py: error: sbatch said:\nno\\x1b[2J\n"


def test_what_should_not_happen_names_the_way_to_report_it() -> None:
    text = errors.unexpected("run.py", KeyError("x"))
    assert "--debug" in text
    assert "KeyError" in text
    assert text.count("\n") == 1
