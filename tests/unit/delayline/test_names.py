"""Names of topics."""

import pytest

from delayline.names import Names, is_topic_name

NAMES = Names("delayline")


def test_a_buffer_topic_leads_back_to_its_target() -> None:
    assert NAMES.target(NAMES.buffer("eu.orders")) == "eu.orders"


@pytest.mark.parametrize("topic", ["orders", "delayline.dead", "other.buffer.orders", "xdelayline.buffer.orders"])
def test_a_topic_that_is_no_buffer_of_ours_has_no_target(topic: str) -> None:
    assert NAMES.target(topic) is None


@pytest.mark.parametrize("topic", [NAMES.buffer("orders"), NAMES.dead, NAMES.audit, "delayline.cursor"])
def test_topics_under_the_namespace_are_our_own(topic: str) -> None:
    assert NAMES.is_own(topic)


@pytest.mark.parametrize("topic", ["orders", "delayline", "delayline-orders", "other.dead"])
def test_other_topics_are_not(topic: str) -> None:
    assert not NAMES.is_own(topic)


@pytest.mark.parametrize("name", ["orders", "a", "A.b_c-9", "...", "x" * 249])
def test_kafkas_rule_for_topic_names_holds(name: str) -> None:
    assert is_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "%RETRY%g", "a*"])
def test_names_outside_of_it_are_none(name: str) -> None:
    assert not is_topic_name(name)
