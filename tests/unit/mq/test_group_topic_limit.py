"""How many topics of consumer groups senders may have made."""

import pytest
from structlog.testing import capture_logs

from delayline.clock import ManualClock
from mq.errors import TopicUnknown
from mq.group_topic_limit import LOGGED_AGAIN_S, WINDOW_S, GroupTopicLimit
from mq.memory import MemoryQueue


def test_beyond_the_bound_no_topic_is_made_until_the_hour_is_over() -> None:
    clock = ManualClock()
    limit = GroupTopicLimit(2, clock)
    for name in ("a", "b"):
        limit.check(name, "orders")
        limit.made("orders")
    with pytest.raises(TopicUnknown, match=r"'c' is missing, and retry.topics_made_max lets 2 an hour"):
        limit.check("c", "orders")
    limit.check("c", "mail")
    clock.advance(int(WINDOW_S * 1000))
    limit.check("c", "orders")


def test_what_was_not_made_does_not_count() -> None:
    limit = GroupTopicLimit(1, ManualClock())
    for _ in range(3):
        limit.check("a", "orders")


def test_none_may_be_made_where_the_bound_is_zero() -> None:
    with pytest.raises(TopicUnknown):
        GroupTopicLimit(0, ManualClock()).check("a", "orders")


def test_what_is_not_made_is_logged_once_in_a_while_by_the_topic_it_comes_from() -> None:
    clock = ManualClock()
    limit = GroupTopicLimit(0, clock)
    with capture_logs() as lines:
        for name, target in [("a", "orders"), ("b", "orders"), ("c", "mail"), ("d", "orders")]:
            with pytest.raises(TopicUnknown):
                limit.check(name, target)
        clock.advance(int(LOGGED_AGAIN_S * 1000))
        with pytest.raises(TopicUnknown):
            limit.check("e", "orders")
    assert [(line["topic"], line["missing"]) for line in lines] == [("orders", "a"), ("mail", "c"), ("orders", "e")]


def test_a_queue_gives_a_topic_that_is_there_and_makes_no_more_than_the_bound() -> None:
    queue = MemoryQueue(namespace="delayline", clock=ManualClock(), group_topics_max=2)
    target = queue.ensure_topic("orders")
    made = [queue.group_topic(f"delayline.retry.g{n}", target) for n in (1, 2, 1, 2)]
    assert len({topic.name for topic in made}) == 2
    with pytest.raises(TopicUnknown, match=r"retry\.topics_made_max"):
        queue.group_topic("delayline.retry.g3", target)
