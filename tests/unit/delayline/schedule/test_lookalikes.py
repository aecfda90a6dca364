"""Which header names were meant as directives."""

import string

import pytest

from delayline.records.headers import ECHOED, RESERVED
from delayline.schedule.directives import directive_names
from delayline.schedule.lookalikes import Likeness, lookalike

NAMES = sorted(directive_names(()))


def nearest(name: str, *aliases: str) -> str | None:
    found = lookalike(name.encode(), aliases)
    return None if found is None else found.nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Delay", "delay"),
        ("DELAY", "delay"),
        ("Delay-Ms", "delay-ms"),
        ("delay_ms", "delay-ms"),
        ("delays", "delay"),
        ("dely", "delay"),
        ("deley", "delay"),
        ("dealy", "delay"),
        ("delayms", "delay-ms"),
        ("delay-time", "delay-times"),
        ("Deliver-At", "deliver-at"),
        ("DELIVER_AT", "deliver-at"),
        ("devliver-at", "deliver-at"),
        ("delay-m", "delay-ms"),
    ],
)
def test_a_name_that_differs_by_case_or_one_letter_is_taken_for_the_directive(name: str, meant: str) -> None:
    assert nearest(name) == meant


@pytest.mark.parametrize("name", ["relay", "x-delay", "display", "deadline", "delta", "trace", "DELIVERED", "d", ""])
def test_an_applications_own_name_is_like_none(name: str) -> None:
    assert lookalike(name.encode(), ()) is None


@pytest.mark.parametrize("name", ["delay-reason", "Delay-Foo", "delay-no", "delay-at-least"])
def test_a_name_under_delay_that_is_like_no_directive_is_unknown(name: str) -> None:
    found = lookalike(name.encode(), ())
    assert found is not None
    assert (found.likeness, found.name, found.nearest) == (Likeness.UNKNOWN, name, None)


@pytest.mark.parametrize("name", [*NAMES, *sorted(ECHOED | RESERVED), b"delayline-anything"])
def test_a_directive_and_a_header_of_delaylines_own_are_no_lookalikes(name: bytes) -> None:
    assert lookalike(name, ()) is None


def test_the_name_of_a_family_is_a_directive_only_where_the_family_is_named() -> None:
    assert nearest("DELAY", "rocketmq") is None
    assert nearest("X-Delay", "rabbitmq") == "x-delay"
    assert lookalike(b"X-Delay", ()) is None


@pytest.mark.parametrize("known", NAMES)
def test_every_single_edit_behind_the_first_letter_is_noticed(known: bytes) -> None:
    text = known.decode()
    edits = {text[:n] + text[n + 1 :] for n in range(1, len(text))}
    edits |= {text[:n] + c + text[n:] for n in range(1, len(text) + 1) for c in string.ascii_lowercase}
    edits |= {text[:n] + c + text[n + 1 :] for n in range(1, len(text)) for c in string.ascii_lowercase}
    edits |= {text[:n] + text[n + 1] + text[n] + text[n + 2 :] for n in range(1, len(text) - 1)}
    missed = [edit for edit in edits if edit.encode() not in NAMES and nearest(edit) is None]
    assert missed == []
