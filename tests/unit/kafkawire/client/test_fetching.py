"""kafkawire.client.fetching."""

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.records.record import encode_body
from kafkawire.client.fetching import (
    ANSWER_BYTES,
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    FETCH_VERSION,
    PARTITION_BYTES,
    Backoff,
    Meaning,
    Reading,
    request_for,
    take,
)
from kafkawire.client.reading import At
from kafkawire.protocol.errors import BatchError, ErrorCode, WireError
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchResponse,
)
from tests.tiers import examples
from tests.unit.mq.kafka.logged import Log, random_log

AT = At("orders", 0)


def test_partitions_stand_in_the_order_in_which_they_are_given() -> None:
    order = [At("a", 1), At("b", 0), At("b", 2), At("a", 0)]
    sent = decode(FetchRequest, FETCH_VERSION, b"".join(encode(request_for(Reading(at, 5) for at in order), 12)))
    assert [At(topic.topic, part.partition) for topic in sent.topics for part in topic.partitions] == order
    assert (sent.max_bytes, sent.topics[0].partitions[0].partition_max_bytes) == (ANSWER_BYTES, PARTITION_BYTES)


def test_who_fails_again_and_again_waits_longer_and_longer_and_at_first_not_at_all() -> None:
    backoff = Backoff()
    waits = []
    for _ in range(9):
        backoff.failed(100.0)
        waits.append(round(backoff.until_s - 100, 3))
    assert (waits[:3], waits[-1]) == ([0, BACKOFF_FIRST_S, 2 * BACKOFF_FIRST_S], BACKOFF_MAX_S)
    backoff.succeeded()
    backoff.failed(100.0)
    assert backoff.until_s == 100


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, Meaning.GONE),
        (ErrorCode.CORRUPT_MESSAGE, Meaning.SPOILT),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Meaning.MOVED),
        (ErrorCode.FENCED_LEADER_EPOCH, Meaning.MOVED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Meaning.MOVED),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Meaning.FORBIDDEN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Meaning.TROUBLE),
        (12345, Meaning.TROUBLE),
    ],
)
def test_an_error_moves_nothing(error: int, meaning: Meaning) -> None:
    reading = Reading(AT, 7, log_end=9)
    assert take(reading, FetchedPartition(0, error, -1)) == (meaning, None)
    assert (reading.offset, reading.log_end) == (7, 9)


def epoch_asked(reading: Reading) -> int:
    return request_for([reading]).topics[0].partitions[0].last_fetched_epoch


def test_the_epoch_of_the_last_batch_that_was_read_is_sent_and_none_before_one_was() -> None:
    log, reading = Log(), Reading(AT, 0)
    seen = [epoch_asked(reading)]
    for _ in range(3):
        log.append([encode_body(None, b"x")])
        log.elect()
        log.append([encode_body(None, b"x")])
        answer = FetchedPartition(0, 0, log.end, records=log.fetch(reading.offset, 1 << 20)[0])
        assert take(reading, answer)[0] is Meaning.RECORDS
        seen.append(epoch_asked(reading))
        assert take(reading, FetchedPartition(0, 0, log.end, records=b""))[0] is Meaning.NOTHING
        seen.append(epoch_asked(reading))
    assert seen == [-1, 1, 1, 2, 2, 3, 3]


def test_of_a_batch_that_is_cut_off_the_epoch_is_not_taken() -> None:
    log, reading = Log(), Reading(AT, 0)
    log.append([encode_body(None, b"x")])
    log.elect()
    log.append([encode_body(None, b"x")])
    take(reading, FetchedPartition(0, 0, log.end, records=log.fetch(0, 1 << 20)[0][:-1]))
    assert (reading.offset, reading.epoch) == (1, 0)


@pytest.mark.parametrize("records", [b"", None])
def test_an_epoch_that_diverges_moves_nothing(records: bytes | None) -> None:
    reading = Reading(AT, 7, epoch=3, log_end=9)
    answer = FetchedPartition(0, 0, 20, 20, 0, DivergingEpoch(2, 5), records=records)
    assert take(reading, answer) == (Meaning.DIVERGED, None)
    assert (reading.offset, reading.epoch, reading.log_end) == (7, 3, 9)


def test_an_answer_that_names_no_epoch_does_not_diverge() -> None:
    assert take(Reading(AT, 7, epoch=3), FetchedPartition(0, 0, 7, 7, 0, DivergingEpoch()))[0] is Meaning.NOTHING


@settings(max_examples=examples(600), deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 60))
def test_without_a_loss_no_epoch_diverges_wherever_answers_are_cut(seed: int, steps: int) -> None:
    dice = random.Random(seed)
    log = random_log(dice, steps)
    reading = Reading(AT, dice.randrange(log.stable_end + 1))
    while reading.offset < log.stable_end:
        data, _ = log.fetch(reading.offset, dice.randrange(1, 3000))
        take(reading, FetchedPartition(0, 0, log.end, records=data))
        if reading.epoch >= 0:
            epoch, end = log.end_of(reading.epoch)
            assert (epoch, end >= reading.offset) == (reading.epoch, True)


@pytest.mark.slow
@settings(max_examples=examples(1200), deadline=None)
@given(st.data())
def test_any_change_of_an_answer_is_an_error_that_is_known_or_does_no_harm(data: st.DataObject) -> None:
    log = random_log(random.Random(data.draw(st.integers(0, 50))), 12)
    field, aborted = log.fetch(0, 1 << 30)
    named = [AbortedTransaction(producer, offset) for producer, offset in aborted]
    part = FetchedPartition(0, 0, log.end, log.stable_end, 0, aborted_transactions=named, records=field)
    sent = encode(FetchResponse(responses=[FetchedTopic(topic="orders", partitions=[part])]), FETCH_VERSION)
    changed = bytearray(b"".join(sent))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(WireError):
        for topic in decode(FetchResponse, FETCH_VERSION, changed).responses:
            for found in topic.partitions:
                _read_all(found)


def _read_all(part: FetchedPartition) -> None:
    reading = Reading(AT, 0)
    _, batches = take(reading, part)
    seen: list[int] = []
    with suppress(BatchError):
        while batches is not None and not batches.done:
            seen += [row[0] for row in batches.take(7, 1 << 20)]
    assert seen == sorted(set(seen))
    assert reading.offset >= max(seen, default=-1)
    assert encode(request_for([reading]), FETCH_VERSION)
