"""What is learned of a record that a topic refuses, and whether there is another way to write it."""

import pytest

from delay_service.core.dead import Refusal
from delay_service.core.refusals import Refusals
from delayline.records.message import Key
from mq.errors import Refused

KEY = Key(50, 7)
DELIVERY, DEAD_LETTER, APPEND = Refused.DELIVERY, Refused.DEAD_LETTER, Refused.APPEND


@pytest.mark.parametrize(
    ("refused", "helps", "learned"),
    [
        ([DELIVERY], [True], Refusal("code", "why")),
        ([DELIVERY, DELIVERY], [True, False], Refusal("code", "why")),
        ([DELIVERY, DEAD_LETTER], [True, True], Refusal("code", "why", left_out=True)),
        ([DELIVERY, DEAD_LETTER, DEAD_LETTER], [True, True, False], Refusal("code", "why", left_out=True)),
        ([APPEND], [True], Refusal("code", "why", ends=True)),
        ([DELIVERY, APPEND], [True, True], Refusal("code", "why", ends=True)),
        ([APPEND, APPEND], [True, False], Refusal("code", "why", ends=True)),
        ([APPEND, DEAD_LETTER], [True, True], Refusal("code", "why", left_out=True, ends=True)),
    ],
    ids=lambda given: "-".join(one.name for one in given) if given and isinstance(given[0], Refused) else "",
)
def test_each_refusal_leaves_fewer_ways_to_write_a_record(
    refused: list[Refused], helps: list[bool], learned: Refusal
) -> None:
    refusals = Refusals()
    assert [refusals.learn(KEY, "code", "why", what) for what in refused] == helps
    assert refusals == {KEY: learned}


def test_why_its_delivery_was_refused_stays_when_its_dead_letter_is_too_large() -> None:
    refusals = Refusals()
    refusals.learn(KEY, "forbidden", "no right to write", DELIVERY)
    refusals.learn(KEY, "too-large", "2 MB", DEAD_LETTER)
    assert refusals[KEY] == Refusal("forbidden", "no right to write", left_out=True)
