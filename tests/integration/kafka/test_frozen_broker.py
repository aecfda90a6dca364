"""A broker that does not answer for a while, and then goes on."""

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from delay_service.worker.loop import Worker
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Delivery
from mq.errors import CommitError
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import PATIENCE_S, Place, body, soon
from tests.integration.kafka.test_takeover import at_work
from tests.integration.kafka.whole_worker import arrived, records, send, working


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """Of these tests alone: others would wait for a frozen one too."""
    with started(Kafka) as broker:
        yield broker


@pytest.fixture
def logged(place: Place) -> Place:
    """A topic whose records the broker stamps, so that early and late are judged by its clock."""
    place.make_topic(message_timestamp_type="LogAppendTime")
    return place


def test_a_worker_frozen_out_for_a_session_in_mid_commit_takes_over_from_itself_and_repeats_nothing(
    kafka: Kafka, logged: Place
) -> None:
    """The group loses and finds the member while a commit of it is on its way."""
    queue = logged.queue(session_timeout_s=2.0)
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    node = kafka.nodes[0]
    with working(logged, queue) as worker:
        send(logged, queue, range(3000), 1000)
        soon(lambda: len(records(logged, queue, logged.topic)) > 100)
        before = soon(lambda: _epochs(worker))
        node.freeze()
        try:
            Event().wait(4.0)
        finally:
            node.thaw()
        assert arrived(logged, queue, 3000) == list(range(3000))
        soon(lambda: max(_epochs(worker), default=0) > max(before))
        send(logged, queue, range(3000, 3010), 0)
        assert arrived(logged, queue, 3010) == list(range(3010))


def _epochs(worker: Worker) -> list[int]:
    """Of both shards, and none while it has not got both."""
    found = [status.owner_epoch for status in worker.statuses]
    return found if len(found) == 2 else []


def test_a_broker_that_does_not_answer_for_a_while_delays_and_loses_nothing(kafka: Kafka, logged: Place) -> None:
    queue = logged.queue(session_timeout_s=6.0)
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    node = kafka.nodes[0]
    with working(logged, queue):
        send(logged, queue, range(100), 600)
        node.freeze()
        try:
            Event().wait(2.0)
        finally:
            node.thaw()
        assert arrived(logged, queue, 100) == list(range(100))


def test_a_worker_whose_broker_comes_back_goes_on(kafka: Kafka, place: Place) -> None:
    place.make_topic()
    _, worker = at_work(place, session_timeout_s=6.0)
    worker.claim(place.shard)
    node = kafka.nodes[0]
    node.freeze()
    outcome: list[object] = []

    def commit() -> None:
        try:
            worker.commit(place.shard, deliveries=[Delivery(body(b"d"))])
            outcome.append("written")
        except CommitError as error:
            outcome.append(error)

    committing = Thread(target=commit)
    committing.start()
    committing.join(1.0)
    node.thaw()
    committing.join(PATIENCE_S)
    assert outcome == ["written"]
