"""Text of others on a terminal."""

import json

import pytest

from delayline.process.printable import printable, printable_json

OBEYED = "\x1b\x9b\x7f\u202e\u2028\u2029\x85\n\r\t"


@pytest.mark.parametrize("char", OBEYED)
def test_what_a_terminal_obeys_is_shown_as_an_escape(char: str) -> None:
    assert printable(f"a{char}b").isprintable()
    assert printable(f"a{char}b") == f"a{repr(char)[1:-1]}b"


def test_letters_of_all_languages_stay() -> None:
    assert printable("Überraschung 訂單 [1]") == "Überraschung 訂單 [1]"


def test_a_long_text_is_cut_and_has_its_length() -> None:
    assert printable("x" * 5, 5) == "xxxxx"
    assert printable("x" * 6, 5) == "xxxxx… (6 characters)"


def test_json_is_printable_and_reads_as_before() -> None:
    value = {OBEYED: f"é{OBEYED}\U000e0001"}  # the last one is a tag: a format character beyond 16 bits
    shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert shown.isprintable()
    assert "é" in shown
    assert json.loads(shown) == value
