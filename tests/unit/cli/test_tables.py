"""How answers look to people, also where a stranger wrote what is in them."""

import json

import pytest

from cli.tables import CELL_CHARS_MAX, show_fields, show_json, show_rows

HOSTILE = "\x1b[2J\x9b31m\u202eevil\u2028\x85"
SHOWN = r"\x1b[2J\x9b31m\u202eevil\u2028\x85"


def test_cells_and_fields_hold_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(["who"], [[HOSTILE]])
    show_fields({"who": HOSTILE, "more": {"a": HOSTILE}})
    assert capsys.readouterr().out.count(SHOWN) == 3


def test_json_for_programs_is_printable_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"who": HOSTILE, "detail": "é" * 2 * CELL_CHARS_MAX}
    show_json(answer)
    line = capsys.readouterr().out.removesuffix("\n")
    assert line.isprintable()
    assert json.loads(line) == answer


def test_a_long_cell_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(["detail", "status"], [["x" * 9000, "200"]])
    line = capsys.readouterr().out.splitlines()[-1]
    assert "… (9000 characters)" in line
    assert len(line) < CELL_CHARS_MAX + 50


def test_a_field_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"value": "x" * 9000})
    assert "x" * 9000 in capsys.readouterr().out
