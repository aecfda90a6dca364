"""Transactions that are cut off by what happens to others: the next one finds a producer that works."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from delayline.buffer.outcome import spread
from delayline.schedule.rules import DEFAULT_RULES
from mq.errors import QueueUnavailable
from mq.kafka.admin.cluster import Cluster
from mq.kafka.admin.limits import Limits
from mq.kafka.data_path.finishing import Nobody
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.sends import Aborted, Send
from mq.kafka.data_path.spoken import direct
from mq.kafka.librdkafka import trouble
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker.mirror import shard_key
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, Worker, body, soon

RECORDS = 200
ROUNDS = 3


def settings(place: Place) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=place.kafka.bootstrap_servers, namespace=place.namespace)


def sends(place: Place) -> Iterator[Send]:
    return (Send(place.topic, number % 2, body(b"%d" % number)) for number in range(RECORDS))


@contextmanager
def made(place: Place, name: str) -> Iterator[WireTransactions]:
    path = direct(settings(place), name, CLOCK)
    limits = Limits(Cluster(settings(place), CLOCK, Event().wait))
    transactions = WireTransactions(
        settings(place), name, path.nodes, path.codec, limits, CLOCK, Event().wait, Nobody()
    )
    with closing(path.nodes), closing(transactions):
        yield transactions


def cut_off_by_a_namesake(place: Place, number: int) -> Aborted:
    """Another producer takes the id while records are on their way: what a frozen worker finds when it wakes up."""
    name = f"{place.namespace}-{number}"

    def interrupted() -> Iterator[Send]:
        yield from sends(place)
        Producer(settings(place).transactional(name)).init_transactions(PATIENCE_S)
        yield from sends(place)

    with made(place, name) as transactions:
        transactions.open()
        with pytest.raises(Aborted) as caught:
            transactions.run(interrupted())
    return caught.value


def test_whoever_is_fenced_while_records_are_on_their_way_hears_so(place: Place) -> None:
    place.make_topic()
    errors = [cut_off_by_a_namesake(place, number).error for number in range(ROUNDS)]
    assert [trouble.fenced(error) for error in errors] == [True] * ROUNDS


def test_after_offsets_were_refused_for_an_old_generation_the_next_transaction_is_written(place: Place) -> None:
    place.make_topic()
    queue = place.queue()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    worker = place.worker(queue)
    worker.assigned(2)
    old = worker.source.membership.standing().metadata
    place.worker(queue)
    now = soon(lambda: (worker.poll(), _newer(worker.source.membership.standing().metadata, old))[1])
    assert now is not None
    offsets = [TopicPartition(place.buffer, 0, 5, metadata="junk.")]
    with made(place, f"{place.namespace}-writer") as transactions:
        for _ in range(ROUNDS):
            with pytest.raises(Aborted) as caught:
                transactions.run(sends(place), offsets, old)
            assert trouble.old_generation(caught.value.error)
            transactions.run(sends(place), offsets, now)


def _newer(metadata: bytes | None, old: bytes | None) -> bytes | None:
    return None if metadata == old else metadata


def test_a_worker_that_was_fenced_and_came_back_is_fenced_again_when_it_dies(place: Place) -> None:
    """Frozen, missed, awake again under its old name, then killed in a transaction: the heir must not wait for that
    transaction's timeout."""
    place.make_topic()
    queue = place.queue(transaction_timeout_s=60.0)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    frozen = place.worker(queue)
    frozen.assigned(2)
    frozen.claim(place.shard)
    frozen.source.close()
    soon(lambda: not queue.cluster.members())
    queue.takeover(place.shard)
    woken = place.worker(queue, frozen.writer)
    woken.assigned(2)
    claimed = woken.claim(place.shard)
    producer = _left_open(place, queue, woken)
    woken.source.close()
    assert soon(lambda: _taken_over(queue, place)).cursor == claimed
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)


def _left_open(place: Place, queue: Any, worker: Worker) -> Producer:
    """A cursor of the shard in a transaction that nobody will end: first to the mirror, and then to the group."""
    producer = Producer(queue.settings.transactional(worker.writer))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    mirror = queue.settings.names.cursor
    number = spread(place.shard, len(queue.topic(mirror).partitions))
    producer.produce(mirror, b"junk", shard_key(place.shard), number)
    producer.flush(PATIENCE_S)
    offset = TopicPartition(place.buffer, 0, 5, metadata="junk.")
    producer.send_offsets_to_transaction([offset], worker.source.membership.standing().metadata, PATIENCE_S)
    return producer


def _taken_over(queue: Any, place: Place) -> Any:
    try:
        return queue.takeover(place.shard)
    except QueueUnavailable:
        return None
