"""mq.rocketmq.journal: what follows from the records of a journal."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from delayline.errors import UnknownFormat
from mq.rocketmq.journal import (
    MAGIC,
    Claimed,
    Done,
    Journals,
    Kept,
    Record,
    Released,
    ShardStep,
    State,
    Write,
    decode,
    encode,
    is_record,
    replay,
)
from rocketmq.client.broker import Pulled
from rocketmq.wire.bodies import Queue
from tests.unit.mq.rocketmq.scene import JOURNAL, Answering, BrokerInMemory, Requests

DECIDES = Write("orders", "a", 0, 5, None)
ROW = Write("ns%audit", "a", 1, 7, ((b"u", ""),))


def step(term: int, number: int, *writes: Write, before: bytes | None = None) -> ShardStep:
    return ShardStep(term, number, f"s{term}", before, b"%d.%d" % (term, number), writes)


EVERY_KIND: list[Record] = [
    Claimed(1, "s1"),
    step(1, 1, DECIDES, ROW),
    Done(1, 1),
    Kept(1, "s1", None),
    Released(1),
]


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_records_are_read_as_they_were_written(record: Record) -> None:
    assert decode(bytes(encode(record).body)) == record


@pytest.mark.parametrize("end", [b"", b"\x02", b"\x01", b"\x01\xc0", b"\x01\x81\xa4type\xa1x"])
def test_what_no_version_writes_is_refused(end: bytes) -> None:
    assert is_record(MAGIC + end)
    with pytest.raises(UnknownFormat):
        decode(MAGIC + end)


@pytest.mark.parametrize("body", [b"", b"d", b"mark", b"\x01\x81\xa4type\xa1x", b" dlj\x01"])
def test_what_does_not_begin_like_ours_is_no_record(body: bytes) -> None:
    assert not is_record(body)


def test_an_empty_journal_is_nobodys() -> None:
    assert replay([]) == State()


def test_the_first_claim_of_a_term_counts() -> None:
    state = replay([Claimed(1, "a"), Claimed(1, "b")])
    assert (state.term, state.session, state.released) == (1, "a", False)


def test_a_step_is_open_until_it_is_done() -> None:
    claimed: list[Record] = [Claimed(1, "s1"), step(1, 1, DECIDES)]
    assert replay(claimed).step == claimed[1]
    state = replay([*claimed, Done(1, 1)])
    assert (state.step, state.cursor) == (None, b"1.1")


def test_another_steps_end_does_not_close_it() -> None:
    assert replay([Claimed(1, "s1"), step(1, 2, DECIDES), Done(1, 1)]).step is not None


def test_a_step_that_has_yet_to_be_looked_for_leaves_the_cursor_before() -> None:
    open_step = step(1, 2, DECIDES, before=b"1.1")
    assert replay([Claimed(1, "s1"), open_step]).known_cursor == b"1.1"
    assert replay([Claimed(1, "s1"), step(1, 2, ROW, before=b"1.1")]).known_cursor == b"1.2"


def test_a_claim_takes_the_open_step_over() -> None:
    state = replay([Claimed(1, "s1"), step(1, 1, DECIDES), Claimed(2, "s2")])
    assert (state.session, state.step) == ("s2", step(1, 1, DECIDES))


def test_what_lands_behind_a_later_claim_does_not_count() -> None:
    late: list[Record] = [step(1, 1, DECIDES), Kept(1, "s1", b"x"), Released(1), Claimed(1, "s0")]
    state = replay([Claimed(1, "s1"), Claimed(2, "s2"), *late])
    assert state == State(2, "s2", released=False)


def test_who_has_released_is_gone_and_the_cursor_stays() -> None:
    state = replay([Claimed(1, "s1"), Kept(1, "s1", b"c"), Released(1)])
    assert (state.released, state.cursor) == (True, b"c")


def test_a_journal_that_is_read_from_its_last_step_on_has_the_same_state() -> None:
    records: list[Record] = [Claimed(1, "s1")]
    for number in range(1, 5):
        records += [step(1, number, DECIDES, before=b"1.%d" % (number - 1)), Done(1, number)]
    states = [replay(records[begin:]) for begin in range(0, len(records) - 1, 2)]
    assert all(earlier == later for earlier, later in pairwise(replace(state, end=0) for state in states))


class Counting(Requests):
    """Counts pulls."""

    pulls = 0

    def pull(self, queue: Queue, offset: int, *, wait_s: float = 0.0) -> Pulled:
        self.pulls += 1
        return super().pull(queue, offset, wait_s=wait_s)


def test_a_journal_is_read_again_only_when_something_was_written() -> None:
    broker = BrokerInMemory()
    reader: Any = Counting(broker)
    cluster: Any = Answering()
    journals = Journals(cluster, reader)
    for number in range(3):
        broker.store(JOURNAL, [encode(Claimed(number + 1, f"s{number}"))])
        broker.show(JOURNAL, number + 1)
        for _ in range(3):
            assert journals.recall(JOURNAL).session == f"s{number}"
        assert reader.pulls == number + 1
