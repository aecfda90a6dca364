"""What happened to messages that go on waiting."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.events import CLIENT, OF_MESSAGE_MAX, WORKER, Events, history_of
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Ending, Event, Found, State
from delayline.records.message import MessageId, Shard

ORDERS = Shard("orders", "0")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=80), st.integers(1, 30))
def test_the_newest_events_of_each_message_are_kept_and_the_oldest_of_all_forgotten_first(
    recorded: list[tuple[int, int]], events_max: int
) -> None:
    """The model keeps everything that is not too old and not one of too many."""
    events, everything, now_ms = Events(events_max, retention_ms=1 << 40), [], 0
    for version, (offset, later_ms) in enumerate(recorded):
        now_ms += 1 + later_ms
        events.record(ORDERS, offset, now_ms, "rescheduled", version)
        everything.append((offset, Event(now_ms, "rescheduled", CLIENT, version)))
    events.forget(now_ms)
    expected: defaultdict[int, list[Event]] = defaultdict(list)
    for offset, event in everything[-events_max:]:
        expected[offset].append(event)
    assert [events.of(ORDERS, offset) for offset in range(4)] == [
        expected[offset][-OF_MESSAGE_MAX:] for offset in range(4)
    ]


def test_an_event_is_forgotten_when_its_time_is_over() -> None:
    events = Events(100, retention_ms=10)
    events.record(ORDERS, 1, 100, "roll", 1)
    events.record(ORDERS, 1, 105, "roll", 2)
    events.forget(111)
    assert events.of(ORDERS, 1) == [Event(105, "rolled", WORKER, 2)]


def test_a_reason_that_has_no_code_is_reported_as_another_one() -> None:
    events = Events(100, 100)
    events.record(ORDERS, 1, 100, "of a later version", 1)
    assert events.of(ORDERS, 1) == [Event(100, "other", WORKER, 1)]


def test_the_story_of_a_message_begins_with_its_acceptance_and_ends_with_its_outcome() -> None:
    moved = Event(20, "rescheduled", CLIENT, 1)
    ending = Ending(Outcome.DELIVERED, 40)
    found = Found(MessageId(ORDERS, 1, 30), State.DELIVERED, 10, 30, version=1, ending=ending)
    assert history_of(found, [moved]) == (
        Event(10, "accepted", CLIENT, 0),
        moved,
        Event(40, "delivered", WORKER, 1),
    )
