"""Delayed records through the proxy: into the buffer, by every client, and what is refused and how."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from delayline.records.message import Shard
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.batch.head import header_only
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages import produce
from mq.kafka.librdkafka.bodies import Headers
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.conftest import Proxy, consumed
from tests.integration.proxy.test_wire import producer_id
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import CODECS, ProducerId, Sent, batch_of, plain

DELAY: Headers = [("delay-ms", b"600000")]


def produced(
    proxy: Proxy, values: Sequence[tuple[bytes, Sequence[tuple[str, str | bytes | None]]]], **settings: Any
) -> list[Any]:
    """The error, or None, of each."""
    answered: dict[int, Any] = {}
    producer = Producer({"bootstrap.servers": proxy.address, "linger.ms": 20, **settings})
    for number, (value, headers) in enumerate(values):
        producer.produce(
            proxy.place.topic,
            value=value,
            partition=0,
            headers=[*headers],
            on_delivery=lambda error, _, number=number: answered.__setitem__(number, error),
        )
    assert producer.flush(30) == 0
    return [answered[number] for number in range(len(values))]


def in_target(proxy: Proxy, count: int) -> list[int]:
    return [int(one.value()) for one in consumed(proxy.address, proxy.place.topic, count)]


def in_buffer(proxy: Proxy, count: int) -> list[int]:
    return [int(one.value()) for one in consumed(proxy.place.kafka.bootstrap_servers, proxy.place.buffer, count)]


def mixed(count: int) -> list[tuple[bytes, Headers]]:
    return [(b"%d" % n, DELAY if n % 3 == 1 else [("trace", b"%d" % n)]) for n in range(count)]


LATER = [n for n in range(60) if n % 3 == 1]
NOW = [n for n in range(60) if n % 3 != 1]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_delayed_records_wait_in_the_buffer_and_the_others_arrive_at_once_in_order(opened: Proxy, codec: str) -> None:
    opened.make_topic(1)
    answers = produced(opened, mixed(60), **{"compression.type": codec, "enable.idempotence": True})
    assert answers == [None] * 60
    assert in_target(opened, 40) == NOW
    found = consumed(opened.place.kafka.bootstrap_servers, opened.place.buffer, 20)
    assert [int(one.value()) for one in found] == LATER
    assert [one.headers() for one in found] == [DELAY] * 20
    assert opened.count("delayline_messages_accepted_total") == 20


def test_a_producer_without_idempotence_is_served_alike(opened: Proxy) -> None:
    opened.make_topic(1)
    assert produced(opened, mixed(60), acks=1) == [None] * 60
    assert (in_target(opened, 40), in_buffer(opened, 20)) == (NOW, LATER)


def test_a_topic_that_takes_no_delays_gets_its_records_as_they_are(opened: Proxy) -> None:
    opened.place.topic = f"plain-{opened.place.topic}"
    opened.make_topic(1)
    assert produced(opened, mixed(60)) == [None] * 60
    assert in_target(opened, 60) == list(range(60))
    assert opened.place.buffer not in opened.place.admin.list_topics(timeout=5).topics


def test_a_delay_of_zero_goes_straight_to_the_topic(opened: Proxy) -> None:
    opened.make_topic(1)
    assert produced(opened, [(b"1", [("delay-ms", b"0")]), (b"2", [("delay", b"0s")])]) == [None, None]
    assert in_target(opened, 2) == [1, 2]


def test_an_operation_stands_in_the_buffer_with_the_message_that_it_is_about(opened: Proxy) -> None:
    opened.make_topic(1)
    cancel = [("delay-op", b"cancel"), ("delay-ref", f"{opened.place.topic}.0.0.1767225600000".encode())]
    assert produced(opened, [(b"1", DELAY), (b"2", cancel)]) == [None, None]
    (refused,) = produced(opened, [(b"3", [*cancel, *DELAY])])
    assert refused.code() == KafkaError.INVALID_RECORD
    assert in_buffer(opened, 2) == [1, 2]


@pytest.mark.thorough
def test_kafka_python_is_served(opened: Proxy) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    opened.make_topic(1)
    with closing(KafkaProducer(bootstrap_servers=opened.address, linger_ms=20)) as producer:
        futures = [
            producer.send(opened.place.topic, value, headers=headers, partition=0) for value, headers in mixed(60)
        ]
        for future in futures:
            future.get(20)
    consumer = KafkaConsumer(
        opened.place.topic,
        bootstrap_servers=opened.address,
        auto_offset_reset="earliest",
        group_id=opened.place.namespace,
        consumer_timeout_ms=5000,
    )
    with closing(consumer):
        found = [int(one.value) for one, _ in zip(consumer, range(40), strict=False)]
    assert (found, in_buffer(opened, 20)) == (NOW, LATER)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_aiokafka_is_served(opened: Proxy, codec: str | None) -> None:
    opened.make_topic(1)
    assert asyncio.run(_with_aiokafka(opened, codec)) == NOW
    assert in_buffer(opened, 20) == LATER


async def _with_aiokafka(proxy: Proxy, codec: str | None) -> list[int]:
    """Produce all, and consume what was not delayed."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = proxy.place.topic
    idempotent = {"compression_type": codec, "linger_ms": 20, "enable_idempotence": True}
    async with AIOKafkaProducer(bootstrap_servers=proxy.address, **idempotent) as producer:
        sent = [await producer.send(topic, value, headers=headers, partition=0) for value, headers in mixed(60)]
        await asyncio.gather(*sent)
    async with AIOKafkaConsumer(topic, bootstrap_servers=proxy.address, auto_offset_reset="earliest") as consumer:
        return [int((await asyncio.wait_for(consumer.getone(), 20)).value) for _ in NOW]


# --- transactions


@pytest.mark.parametrize("old", [False, True], ids=["TV2", "TV1"])
def test_a_transaction_shows_all_of_its_records_or_none(opened: Proxy, old: bool, monkeypatch: Any) -> None:
    opened.make_topic(1)
    if old:
        monkeypatch.setattr("proxy.kafka.view.rewrite.APIS", _without_tv2())
    producer = Producer(
        {"bootstrap.servers": opened.address, "transactional.id": opened.place.namespace, "linger.ms": 5}
    )
    producer.init_transactions(30)
    for attempt in range(4):
        producer.begin_transaction()
        for value, headers in mixed(60)[15 * attempt : 15 * attempt + 15]:
            producer.produce(opened.place.topic, value=value, headers=headers)
        if attempt % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    kept = [*range(15), *range(30, 45)]
    assert in_target(opened, 20) == [n for n in kept if n % 3 != 1]
    assert in_buffer(opened, 10) == [n for n in kept if n % 3 == 1]


def _without_tv2() -> dict[int, Any]:
    from kafkawire.protocol.apis import APIS, ApiKey

    return {**APIS, ApiKey.PRODUCE: APIS[ApiKey.PRODUCE]._replace(newest=11)}


# --- refused


@pytest.fixture
def client(opened: Proxy) -> Iterator[WireClient]:
    with closing(WireClient(opened.address)) as client:
        yield client


def anonymous(records: list[Sent]) -> bytes:
    """A batch of a producer without sequences."""
    return batch_of(records, producer_id=-1, producer_epoch=-1, base_sequence=-1)


def sent(client: WireClient, topic: str, records: bytes, acks: int = -1) -> produce.ProducedPartition:
    request = produce.ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[produce.ProduceTopic(topic, [produce.ProducePartition(0, records)])]
    )
    return client.ask(request, 11, produce.ProduceResponse).responses[0].partition_responses[0]


def test_an_invalid_directive_is_reported_with_its_record_and_nothing_of_the_batch_is_written(
    opened: Proxy, client: WireClient
) -> None:
    opened.make_topic(1)
    records = [plain(0), plain(1, delay_ms=b"60000"), plain(2, delay_ms=b"soon")]
    answer = sent(client, opened.place.topic, batch_of(records))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [2]
    assert (answer.record_errors[0].batch_index_error_message or "").startswith("delay-ms: ")
    assert opened.place.queue().offsets(opened.place.topic, "0") == (0, 0)
    assert opened.place.buffer not in opened.place.admin.list_topics(timeout=5).topics


def test_headers_of_our_own_are_refused(opened: Proxy, client: WireClient) -> None:
    opened.make_topic(1)
    forged = Sent(0, None, b"1", [("delayline-origin", b"orders.0.1.2")])
    assert sent(client, opened.place.topic, batch_of([forged])).error_code == ErrorCode.INVALID_RECORD


def test_a_delayed_record_without_a_key_is_refused_by_a_compacted_topic(opened: Proxy, client: WireClient) -> None:
    opened.make_topic(1, cleanup_policy="compact")
    keyed = Sent(0, b"k", b"1", [("delay-ms", b"60000")])
    assert sent(client, opened.place.topic, anonymous([keyed])).error_code == ErrorCode.NONE
    answer = sent(client, opened.place.topic, anonymous([keyed, keyed._replace(key=None)]))
    assert (answer.error_code, [one.batch_index for one in answer.record_errors]) == (ErrorCode.INVALID_RECORD, [1])


def test_a_delayed_record_that_would_not_fit_its_topic_is_refused_at_once(opened: Proxy, client: WireClient) -> None:
    opened.make_topic(1, max_message_bytes="10000")
    small, large = (Sent(0, None, bytes(size), [("delay-ms", b"60000")]) for size in (4000, 7000))
    assert sent(client, opened.place.topic, anonymous([small])).error_code == ErrorCode.NONE
    assert sent(client, opened.place.topic, anonymous([large])).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_cannot_be_read_is_refused(opened: Proxy, client: WireClient) -> None:
    opened.make_topic(1)
    whole = batch_of([plain(1, delay_ms=b"60000")])
    broken = whole[:-1] + bytes((whole[-1] ^ 1,))
    assert sent(client, opened.place.topic, broken).error_code == ErrorCode.CORRUPT_MESSAGE
    assert sent(client, opened.place.topic, whole[:40]).error_code == ErrorCode.INVALID_RECORD
    assert sent(client, opened.place.topic, header_only(1, 0, 0, transactional=False)).error_code


def test_where_no_buffer_can_be_had_delayed_records_are_to_be_sent_again(opened: Proxy, client: WireClient) -> None:
    opened.place.topic = f"orders-{'x' * 230}"  # with the namespace in front too long for a topic
    opened.make_topic(1)
    assert sent(client, opened.place.topic, anonymous([plain(1)])).error_code == ErrorCode.NONE
    answer = sent(client, opened.place.topic, anonymous([plain(1, delay_ms=b"60000")]))
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "buffer" in (answer.error_message or "")


def test_an_unknown_topic_is_answered_by_the_broker(opened: Proxy, client: WireClient) -> None:
    answer = sent(client, opened.place.topic, batch_of([plain(1, delay_ms=b"60000")]))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_may_not_write_to_the_topic_cannot_write_to_its_buffer(proxy: Proxy) -> None:
    proxy.make_topic(1)
    _allow_only_bob(proxy)
    with proxy.open(bootstrap=_servers(proxy.place.kafka.sasl_servers), access=_access("bob")):
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        alice = {**login, "sasl.username": "alice", "sasl.password": "alice-secret"}
        bob = {**login, "sasl.username": "bob", "sasl.password": "bob-secret"}
        refused = produced(proxy, [(b"1", DELAY)], **alice)
        assert [one.code() for one in refused] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
        assert produced(proxy, [(b"2", DELAY)], **bob) == [None]
    assert in_buffer(proxy, 1) == [2]


def _servers(text: str) -> Any:
    from kafkawire.client.address import parse_servers

    return parse_servers(text)


def _access(user: str) -> Any:
    from proxy.kafka.access import read_access

    return read_access(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }
    )


def _allow_only_bob(proxy: Proxy) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    rule = AclBinding(
        ResourceType.TOPIC,
        proxy.place.topic,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    for future in proxy.place.admin.create_acls([rule]).values():
        future.result(10)


# --- a plain client of one connection, batch by batch


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_is_sent_again_is_written_once(opened: Proxy, client: WireClient, codec: int) -> None:
    opened.make_topic(1)
    answer = producer_id(client)
    ids: ProducerId = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    records = [plain(n, delay_ms=b"600000") if n % 2 else plain(n) for n in range(10)]
    batch = batch_of(records, codec, base_sequence=0, **ids)
    assert [sent(client, opened.place.topic, batch).error_code for _ in range(2)] == [0, 0]
    with closing(WireClient(opened.address)) as another:
        assert sent(another, opened.place.topic, batch).error_code == 0
        behind = batch_of([plain(10), plain(11, delay_ms=b"600000")], codec, base_sequence=10, **ids)
        assert sent(another, opened.place.topic, behind).error_code == 0
        gap = batch_of([plain(20)], codec, base_sequence=14, **ids)
        assert sent(another, opened.place.topic, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    queue = opened.place.queue()
    assert queue.offsets(opened.place.topic, "0") == (0, 6)
    assert queue.log_range(Shard(opened.place.topic, "0")) == (0, 6)
    assert decode_body(queue.read(opened.place.buffer, "0", 5, 1)[0].body).headers == [(b"delay-ms", b"600000")]


def test_what_a_consumer_group_commits_passes_through(opened: Proxy) -> None:
    from confluent_kafka import Consumer

    opened.make_topic(1)
    produced(opened, [(b"1", [])])
    settings = {
        "bootstrap.servers": opened.address,
        "group.id": opened.place.namespace,
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([opened.place.topic])
        (message,) = consumer.consume(1, 15)
        consumer.commit(message=message, asynchronous=False)
        at = TopicPartition(opened.place.topic, 0)
        assert consumer.committed([at], 10)[0].offset == 1


# --- the buffer cannot be written


def test_where_the_buffer_is_lost_delayed_records_are_answered_by_what_clients_repeat(proxy: Proxy) -> None:
    proxy.make_topic(1)
    makes = proxy.place.queue()
    makes.ensure_buffer(proxy.place.topic, DEFAULT_RULES)
    makes_none = proxy.place.queue(topics_create=False)
    with proxy.open(proxy.registry, makes_none, append_s=0.5), closing(WireClient(proxy.address)) as client:
        batch = anonymous([plain(1, delay_ms=b"600000")])
        assert sent(client, proxy.place.topic, batch).error_code == ErrorCode.NONE
        proxy.place.admin.delete_topics([proxy.place.buffer])[proxy.place.buffer].result(10)
        refused = sent(client, proxy.place.topic, batch)
        assert (refused.error_code, refused.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        makes.ensure_buffer(proxy.place.topic, DEFAULT_RULES)
        soon(lambda: sent(client, proxy.place.topic, batch).error_code == ErrorCode.NONE)
    assert makes.log_range(Shard(proxy.place.topic, "0")) == (0, 1)
