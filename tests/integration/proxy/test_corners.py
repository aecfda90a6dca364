"""Where the split meets the ends of Kafka's own rules, on a real broker, batch by batch."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from delayline.names import Names
from kafkawire.client.address import parse_servers
from kafkawire.protocol.apis import APIS, ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages import cluster, metadata, produce, transactions
from kafkawire.protocol.schema import boolean, int16, int32, int64, string
from mq.kafka.librdkafka.bodies import Headers
from proxy.kafka.access import read_access
from proxy.kafka.produce.buffer_topics import BufferTopics
from proxy.kafka.produce.coordinators import Coordinators
from proxy.kafka.produce.sequencer import SEQUENCES
from tests.fault.proxy.clients import JAVA, Client, Load
from tests.fault.proxy.judge import Log, judge
from tests.fault.proxy.logs import values
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.conftest import Proxy, held
from tests.integration.proxy.load import Load as Numbers
from tests.integration.proxy.wire_client import WireClient
from tests.tiers import sample
from tests.unit.mq.kafka.batches import ProducerId, batch_of, plain

LATER = {"delay_ms": b"600000"}
SEED = 11


@pytest.fixture
def client(opened: Proxy) -> Iterator[WireClient]:
    with closing(WireClient(opened.address)) as client:
        yield client


def sent(
    client: WireClient, topic: str, records: bytes, version: int = 11, transactional_id: str | None = None
) -> produce.ProducedPartition:
    request = produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[produce.ProduceTopic(topic, [produce.ProducePartition(0, records)])],
    )
    return client.ask(request, version, produce.ProduceResponse).responses[0].partition_responses[0]


def new_producer(client: WireClient, transactional_id: str | None = None) -> ProducerId:
    request = transactions.InitProducerIdRequest(transactional_id, 60_000)

    def answered() -> Any:
        answer = client.ask(request, 4, transactions.InitProducerIdResponse)
        return answer if answer.error_code == 0 else None

    answer = soon(answered)  # its coordinator may still be loading
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def numbers(proxy: Proxy, topic: str, partitions: int = 1) -> list[int]:
    """Values to the end, v0 as 0; partition after partition."""
    read = values(proxy.place.kafka.bootstrap_servers, topic, partitions)
    return [int(value[1:]) for one in read for value in one]


# --- sequences begin again


@pytest.mark.parametrize("first", sample([SEQUENCES - 7, SEQUENCES - 2, SEQUENCES - 1], every=3))
def test_targets_sequences_pass_their_end(opened: Proxy, client: WireClient, first: int) -> None:
    """Five batches of three across 2**31, each sent again on another connection: every second record waits."""
    opened.make_topic(1)
    ids = new_producer(client)
    for turn in range(5):
        records = [plain(3 * turn + n, **(LATER if (3 * turn + n) % 2 else {})) for n in range(3)]
        batch = batch_of(records, base_sequence=(first + 3 * turn) % SEQUENCES, **ids)
        assert sent(client, opened.place.topic, batch).error_code == ErrorCode.NONE
        with closing(WireClient(opened.address)) as another:
            assert sent(another, opened.place.topic, batch).error_code == ErrorCode.NONE
    assert numbers(opened, opened.place.topic) == list(range(0, 15, 2))
    assert numbers(opened, opened.place.buffer) == list(range(1, 15, 2))


def test_the_buffers_sequences_pass_their_end_too(opened: Proxy, client: WireClient) -> None:
    """As after two billion delayed records: the buffer knows the producer shortly before the end."""
    opened.make_topic(1)
    opened.make_buffer()
    ids = new_producer(client)
    with closing(WireClient(opened.place.kafka.bootstrap_servers)) as direct:
        earlier = batch_of([plain(100, **LATER)], base_sequence=SEQUENCES - 3, **ids)
        assert sent(direct, opened.place.buffer, earlier).error_code == ErrorCode.NONE
    for turn in range(3):
        records = [plain(3 * turn), plain(3 * turn + 1, **LATER), plain(3 * turn + 2, **LATER)]
        batch = batch_of(records, base_sequence=5 + 3 * turn, **ids)
        assert sent(client, opened.place.topic, batch).error_code == ErrorCode.NONE
        with closing(WireClient(opened.address)) as another:
            assert sent(another, opened.place.topic, batch).error_code == ErrorCode.NONE
    assert numbers(opened, opened.place.topic) == [0, 3, 6]
    assert numbers(opened, opened.place.buffer) == [100, 1, 2, 4, 5, 7, 8]


# --- batches that are taken apart by the client


def test_a_batch_that_is_too_large_is_sent_in_pieces_under_its_sequences(opened: Proxy, client: WireClient) -> None:
    """As Java does (ProducerBatch.split): the broker must have remembered nothing of the whole."""
    opened.make_topic(1, max_message_bytes="8000")
    ids = new_producer(client)
    records = [plain(n, pad=b"x" * 1000, **(LATER if n % 4 == 1 else {})) for n in range(20)]
    whole = sent(client, opened.place.topic, batch_of(records, base_sequence=0, **ids))
    assert whole.error_code == ErrorCode.MESSAGE_TOO_LARGE
    for at in (0, 5, 10, 15):
        piece = batch_of(records[at : at + 5], base_sequence=at, **ids)
        assert sent(client, opened.place.topic, piece).error_code == ErrorCode.NONE
    assert numbers(opened, opened.place.topic) == [n for n in range(20) if n % 4 != 1]
    assert numbers(opened, opened.place.buffer) == [n for n in range(20) if n % 4 == 1]


@pytest.mark.thorough
def test_javas_producer_splits_what_is_too_large_and_nothing_is_lost(opened: Proxy, tmp_path: Path) -> None:
    opened.make_topic(1, max_message_bytes="5000")
    load = Load(partitions=1, rate=3000, batch_bytes=100_000, linger_ms=100)
    java = Client(JAVA, 0, tmp_path, opened.address, opened.place.topic, load, 0)
    java.start()
    soon(lambda: java.log.exists() and java.log.read_text().count("\na ") > 5000)
    java.ask_to_end()
    assert java.wait() == ""
    assert "MESSAGE_TOO_LARGE" in java.log.read_text()
    servers = opened.place.kafka.bootstrap_servers
    logs = {
        (Log.TARGET, 0): values(servers, opened.place.topic, 1)[0],
        (Log.BUFFER, 0): values(servers, opened.place.buffer, 1)[0],
    }
    verdict = judge({java.name: java.notes()}, logs)
    assert verdict.broken == []
    assert verdict.chances["in a buffer"] > 100


# --- the buffer refuses for a while


def test_a_buffer_that_refuses_for_a_while_holds_up_and_loses_nothing(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob is the proxy's own user; that he may write to the buffer is taken from him and given back."""
    proxy.make_topic(2)
    proxy.make_buffer()
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    alice = {**sasl, "sasl.username": "alice", "sasl.password": "alice-secret"}
    servers = parse_servers(proxy.place.kafka.sasl_servers)
    codes = noted(monkeypatch, BufferTopics, "append")
    with proxy.open(proxy.registry, append_s=0.5, bootstrap=servers, access=access_of("bob")):
        load = Numbers(proxy, Random(SEED), settings=alice)
        load.send(300)
        rules = [acl("bob", ResourceType.TOPIC, proxy.place.buffer, AclOperation.READ)]
        done(proxy.place.admin.create_acls(rules))
        load.send(300)
        soon(lambda: codes.count(ErrorCode.TOPIC_AUTHORIZATION_FAILED) > 4)
        done(proxy.place.admin.delete_acls([filter_of(rule) for rule in rules]))
        load.finish()
    plain_servers = proxy.place.kafka.bootstrap_servers
    found = [
        *held(plain_servers, proxy.place.topic),
        *held(plain_servers, proxy.place.buffer),
    ]
    assert Counter(int(one.value()) for one in found) == Counter(range(600))


def acl(user: str, kind: ResourceType, name: str, operation: AclOperation = AclOperation.ALL) -> AclBinding:
    """With a rule on a thing nobody may do with it what no rule allows."""
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
    )


def filter_of(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def done(futures: Any) -> None:
    for future in futures.values():
        future.result(10)


# --- transactions


@dataclass(slots=True)
class EndTxnRequest(Message):
    api: ClassVar[ApiKey] = ApiKey(26)

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@dataclass(slots=True)
class EndTxnResponse(Message):
    api: ClassVar[ApiKey] = ApiKey(26)

    throttle_time_ms: int = int32()
    error_code: int = int16()


def test_a_record_that_the_target_refuses_in_a_transaction_fails_it_and_the_next_one_is_whole(opened: Proxy) -> None:
    opened.make_topic(1, max_message_bytes="8000")
    producer = Producer(
        {"bootstrap.servers": opened.address, "transactional.id": opened.place.namespace, "linger.ms": 20}
    )
    producer.init_transactions(30)
    delay: Headers = [("delay-ms", b"600000")]
    producer.begin_transaction()
    producer.produce(opened.place.topic, value=b"v1", headers=delay)
    producer.produce(opened.place.topic, value=bytes(9000))
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    producer.abort_transaction(30)
    # librdkafka numbers on as if nothing had been refused, hears 45, aborts, and begins a new epoch.
    attempts = (transacted(producer, opened.place.topic, delay) for _ in range(3))
    assert any(attempts)
    assert numbers(opened, opened.place.topic) == [2, 4, 6]
    assert numbers(opened, opened.place.buffer) == [3, 5, 7]


def transacted(producer: Producer, topic: str, delay: Headers) -> bool:
    """Whether records 2 to 7 could be committed."""
    producer.begin_transaction()
    for n in range(2, 8):
        producer.produce(topic, value=b"v%d" % n, headers=delay if n % 2 else [])
    try:
        producer.commit_transaction(30)
    except KafkaException:
        producer.abort_transaction(30)
        return False
    return True


@pytest.mark.thorough
def test_what_a_coordinator_cannot_do_twice_at_once_is_repeated(
    opened: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Error 51 to AddPartitionsToTxn, which is ours for the buffer up to Produce 11: four partitions at once."""
    opened.make_topic(4)
    codes = noted(monkeypatch, Coordinators, "add_partition")
    monkeypatch.setattr("proxy.kafka.view.rewrite.APIS", without_tv2())
    producer = Producer({"bootstrap.servers": opened.address, "transactional.id": opened.place.namespace})
    producer.init_transactions(30)
    count = 0
    while ErrorCode.CONCURRENT_TRANSACTIONS not in codes:
        assert count < 4000, f"it was never provoked: {Counter(codes)}"
        producer.begin_transaction()
        for partition in range(4):
            producer.produce(
                opened.place.topic, value=b"v%d" % count, partition=partition, headers=[("delay-ms", b"600000")]
            )
            count += 1
        producer.commit_transaction(30)
    assert sorted(numbers(opened, opened.place.buffer, 4)) == list(range(count))


def noted(monkeypatch: pytest.MonkeyPatch, cls: type, name: str) -> list[Any]:
    """What a method returns from now on."""
    returned: list[Any] = []
    step = getattr(cls, name)

    async def around(*args: Any) -> Any:
        returned.append(await step(*args))
        return returned[-1]

    monkeypatch.setattr(cls, name, around)
    return returned


def without_tv2() -> dict[int, Any]:
    return {**APIS, ApiKey.PRODUCE: APIS[ApiKey.PRODUCE]._replace(newest=11)}


# --- who may do what


def test_who_may_not_use_a_transactional_id_cannot_delay_under_it(proxy: Proxy) -> None:
    """Alice may write to the topic. The id is Bob's."""
    proxy.make_topic(1)
    name = proxy.place.namespace
    done(proxy.place.admin.create_acls([acl("bob", ResourceType.TRANSACTIONAL_ID, name)]))
    with (
        proxy.open(bootstrap=parse_servers(proxy.place.kafka.sasl_servers), access=access_of("bob")),
        closing(logged_in(proxy, "bob")) as bob,
        closing(logged_in(proxy, "alice")) as alice,
    ):
        ids = new_producer(bob, name)
        batch = batch_of([plain(1, **LATER)], transactional=True, base_sequence=0, **ids)
        for version in (11, 12):
            refused = sent(alice, proxy.place.topic, batch, version, name)
            assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        own = batch_of([plain(2, **LATER)], base_sequence=0, **new_producer(alice))
        assert sent(alice, proxy.place.topic, own).error_code == ErrorCode.NONE
        assert sent(bob, proxy.place.topic, batch, 12, name).error_code == ErrorCode.NONE
        end = EndTxnRequest(name, ids["producer_id"], ids["producer_epoch"], committed=True)
        assert bob.ask(end, 1, EndTxnResponse).error_code == ErrorCode.NONE
    assert sorted(numbers(proxy, proxy.place.buffer)) == [1, 2]


def access_of(user: str) -> Any:
    return read_access(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }
    )


def logged_in(proxy: Proxy, user: str) -> WireClient:
    client = WireClient(proxy.address)
    client.ask(cluster.SaslHandshakeRequest("PLAIN"), 1, cluster.SaslHandshakeResponse)
    token = f"\0{user}\0{user}-secret".encode()
    answer = client.ask(cluster.SaslAuthenticateRequest(token), 1, cluster.SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.NONE
    return client


# --- what is not shown


def test_a_list_of_topics_that_breaks_off_at_ours_goes_on_behind_them(opened: Proxy, client: WireClient) -> None:
    """One partition at a time, from our first topic over two of users."""
    opened.make_topic(1)
    opened.make_buffer()
    behind = f"{opened.place.namespace}_behind"
    opened.place.topic, last = behind, opened.place.topic
    opened.make_topic(1)
    names, codes = [], set()
    cursor: metadata.TopicCursor | None = metadata.TopicCursor(topic_name=opened.place.namespace, partition_index=0)
    while cursor is not None and cursor.topic_name <= last:
        request = metadata.DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=cursor)
        answer = client.ask(request, 0, metadata.DescribeTopicPartitionsResponse)
        names += [topic.name for topic in answer.topics]
        codes |= {topic.error_code for topic in answer.topics}
        cursor = answer.next_cursor
        assert cursor is None or not Names(opened.place.namespace).is_hidden(cursor.topic_name)
    assert {behind, last} <= set(names)
    assert not [name for name in names if name and name.startswith(f"{opened.place.namespace}.")]
    assert codes == {0}
