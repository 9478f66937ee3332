"""Colour changes nothing but colour; plain tables cut nothing off."""

from __future__ import annotations

import re

import pytest

from nemo_launch.views import tables
from tests.views.test_block import GOLDEN


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_coloured_block_has_the_very_lines_of_the_plain_one(capsys: pytest.CaptureFixture[str]) -> None:
    tables.coloured_block(GOLDEN)
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert without_colour(out) == GOLDEN + "\n"


def test_words_in_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    text = "- Reason: [bold]not[/bold] :smile: [a3m-1]"
    tables.coloured_block(text)
    assert without_colour(capsys.readouterr().out) == text + "\n"


def test_a_plain_table() -> None:
    rows = [("a", "RUNNING"), ("much-longer-than-its-header", "FAILED")]
    assert tables.plain(("NAME", "STATE"), rows) == (
        "NAME                         STATE\n"
        "a                            RUNNING\n"
        "much-longer-than-its-header  FAILED\n"
    )


def test_a_coloured_table_shows_every_letter(capsys: pytest.CaptureFixture[str]) -> None:
    tables.coloured(("NAME", "STATE"), [("a-name-that-is-longer-than-the-terminal-is-wide", "RUNNING")])
    shown = "".join(without_colour(capsys.readouterr().out).split())
    assert "a-name" in shown
    assert "…" not in shown
