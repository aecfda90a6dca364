"""Directives in topics that take no delays."""

import pytest
from prometheus_client import CollectorRegistry

from delayline.schedule.unheeded import UnheededNames, Why
from kafkawire.batch.compression import Allowance
from kafkawire.batch.head import Codec
from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.screen import Refusal
from proxy.kafka.produce.unnamed import SAMPLE_BYTES, Unnamed
from proxy.screening import EVERY, FIRST, TOPICS_MAX
from tests.unit.mq.kafka.batches import CODECS, batch_of, plain


class Passing:
    """One connection, and what is counted."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.unheeded = UnheededNames(CollectorRegistry())
        self.unnamed = Unnamed(self.unheeded, (), lambda topic: topic != "__own", refuse=refuse)

    def send(self, topic: str, data: bytes) -> bool:
        return self.unnamed.pass_by(topic, [data])

    def refusal(self, topic: str, data: bytes) -> Refusal | None:
        return self.unnamed.refusal(topic, data, Allowance(SAMPLE_BYTES))

    def seen(self, topic: str) -> dict[str, int]:
        return {one.name: one.seen for one in self.unheeded.of(topic) if one.why is Why.TOPIC}


@pytest.mark.parametrize("codec", CODECS)
def test_a_directive_for_a_topic_without_delays_passes_and_is_counted(codec: Codec) -> None:
    passing = Passing()
    assert not passing.send("mail", batch_of([plain(0), plain(1, delay=b"5s")], codec=codec))
    assert not passing.send("mail", batch_of([plain(0, Delay=b"5s")], codec=codec))
    assert passing.seen("mail") == {"delay": 1, "Delay": 1}


def test_the_first_batches_are_looked_at_and_then_one_in_so_many() -> None:
    passing, data = Passing(), batch_of([plain(0, delay=b"5s")])
    for _ in range(10 * EVERY):
        passing.send("mail", data)
    assert passing.seen("mail") == {"delay": FIRST + 9}


def test_the_number_of_topics_that_a_connection_is_watched_for_is_bounded() -> None:
    passing, data = Passing(), batch_of([plain(0, delay=b"5s")])
    for number in range(TOPICS_MAX):
        passing.send(f"t{number}", batch_of([plain(0)]))
    passing.send("late", data)
    passing.send("t0", data)
    assert (passing.seen("late"), passing.seen("t0")) == ({}, {"delay": 1})


def test_own_topics_of_the_queue_and_what_cannot_be_read_are_passed_over() -> None:
    passing = Passing(refuse=True)
    assert not passing.send("__own", batch_of([plain(0, delay=b"5s")]))
    for data in (b"", b"x", batch_of([plain(0, delay=b"5s")])[:70]):
        assert passing.refusal("mail", data) is None


@pytest.mark.parametrize("refuse", [False, True])
def test_a_bomb_is_not_unpacked_beyond_the_allowance(refuse: bool) -> None:
    passing = Passing(refuse=refuse)
    bomb = batch_of([plain(0, delay=b"5s")._replace(value=bytes(SAMPLE_BYTES))], codec=Codec.GZIP)
    passing.send("mail", bomb)
    assert passing.seen("mail") == {}
    refusal = passing.refusal("mail", bomb)
    assert (refusal is not None and refusal.code == ErrorCode.MESSAGE_TOO_LARGE) == refuse


def test_where_unknown_names_are_refused_every_batch_with_one_is() -> None:
    passing, data = Passing(refuse=True), batch_of([plain(0), plain(1, delay=b"5s")])
    assert all(passing.send("mail", data) for _ in range(3 * FIRST))
    refusal = passing.refusal("mail", data)
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_RECORD
    assert refusal.message.startswith("record 1: delay: delay.topics does not name the topic")
    assert passing.refusal("mail", batch_of([plain(0, delayline_id=b"orders.0.1.2", delayline_attempt=b"1")])) is None
