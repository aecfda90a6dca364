"""Brokers unlike the session's: the version before transaction.version 2, one that soon forgets, with SCRAM, and one
with TLS that knows its clients by their certificates."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkawire.client.address import parse_servers
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages import transactions
from mq.kafka.librdkafka.bodies import Headers
from proxy.kafka.access import read_access
from tests.brokers.certificates import make_certificate
from tests.brokers.distribution import OLDER
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, Place, soon
from tests.integration.proxy.conftest import Proxy, held
from tests.integration.proxy.load import Load
from tests.integration.proxy.test_corners import acl, done, new_producer, numbers, sent
from tests.integration.proxy.wire_client import WireClient
from tests.tiers import sample
from tests.unit.mq.kafka.batches import batch_of, plain

SEED = 5
LATER = {"delay_ms": b"600000"}
DELAY: Headers = [("delay-ms", b"600000")]
EXPIRATION_MS = 1500
TRIES = 3
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def older() -> Iterator[Kafka]:
    with started(lambda: Kafka(version=OLDER)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Kafka]:
    properties = {
        "producer.id.expiration.ms": str(EXPIRATION_MS),
        "producer.id.expiration.check.interval.ms": "100",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": SCRAM,
    }
    with started(lambda: Kafka(properties=properties)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: broker.pem and proxy.pem, each with its key before it."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, subject in (("broker", "127.0.0.1"), ("proxy", "proxy")):
        make_certificate(folder, name, subject)
    return folder


@pytest.fixture(scope="module")
def encrypted(certificates: Path) -> Iterator[Kafka]:
    """Its second listener, else SASL's, is one of TLS that asks for certificates and does not insist."""
    ours = "listener.name.sasl.ssl"
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SSL,CONTROLLER:PLAINTEXT",
        f"{ours}.keystore.type": "PEM",
        f"{ours}.keystore.location": str(certificates / "broker.pem"),
        f"{ours}.truststore.type": "PEM",
        f"{ours}.truststore.location": str(certificates / "proxy.crt"),
        f"{ours}.client.auth": "requested",
    }
    with started(lambda: Kafka(properties=properties)) as kafka:
        yield kafka


def proxy_to(kafka: Kafka, stack: ExitStack) -> Proxy:
    proxy = Proxy(Place(kafka, stack), stack)
    proxy.make_topic(2)
    return proxy


# --- Kafka 3.9


@pytest.mark.thorough
def test_on_kafka_3_9_delayed_records_wait_and_the_others_arrive_in_order(older: Kafka) -> None:
    with ExitStack() as stack:
        proxy = proxy_to(older, stack)
        stack.enter_context(proxy.open(proxy.registry))
        load = Load(proxy, Random(SEED))
        load.send(600)
        load.finish()
        found = held(proxy.address, proxy.place.topic)
        waiting = held(older.bootstrap_servers, proxy.place.buffer)
        assert sorted(int(one.value()) for one in found + waiting) == list(range(600))
        assert len(waiting) == proxy.count("delayline_messages_accepted_total") > 100
        for log in (found, waiting):
            for partition in range(2):
                values = [int(one.value()) for one in log if one.partition() == partition]
                assert values == sorted(values)


@pytest.mark.thorough
def test_on_kafka_3_9_a_transaction_shows_all_of_its_records_or_none(older: Kafka) -> None:
    with ExitStack() as stack:
        proxy = proxy_to(older, stack)
        stack.enter_context(proxy.open(proxy.registry))
        producer = Producer({"bootstrap.servers": proxy.address, "transactional.id": proxy.place.namespace})
        producer.init_transactions(30)
        for n in range(0, 40, 10):
            producer.begin_transaction()
            for value in range(n, n + 10):
                producer.produce(proxy.place.topic, value=b"v%d" % value, headers=DELAY if value % 2 else [])
            producer.abort_transaction(30) if n == 10 else producer.commit_transaction(30)
        kept = [*range(10), *range(20, 40)]
        assert sorted(numbers(proxy, proxy.place.topic, 2)) == [n for n in kept if n % 2 == 0]
        assert sorted(numbers(proxy, proxy.place.buffer, 2)) == [n for n in kept if n % 2]


# --- producers that brokers have forgotten


def knows(proxy: Proxy, topic: str, producer_id: int) -> bool:
    request = transactions.DescribeProducersRequest([transactions.ProducersTopic(topic, [0])])
    with closing(WireClient(proxy.place.kafka.bootstrap_servers)) as client:
        answer = client.ask(request, 0, transactions.DescribeProducersResponse)
    return any(one.producer_id == producer_id for one in answer.topics[0].partitions[0].active_producers)


@pytest.mark.thorough
def test_a_producer_that_both_logs_have_forgotten_goes_on_from_any_sequence(forgetful: Kafka) -> None:
    with ExitStack() as stack:
        proxy = proxy_to(forgetful, stack)
        stack.enter_context(proxy.open())
        with closing(WireClient(proxy.address)) as client:
            ids = new_producer(client)
            first = batch_of([plain(0), plain(1, **LATER)], base_sequence=0, **ids)
            assert sent(client, proxy.place.topic, first).error_code == ErrorCode.NONE
            forgotten(proxy, ids["producer_id"], proxy.place.topic, proxy.place.buffer)
            same = batch_of([plain(2), plain(3, **LATER)], base_sequence=2, **ids)
            assert sent(client, proxy.place.topic, same).error_code == ErrorCode.NONE
            forgotten(proxy, ids["producer_id"], proxy.place.topic, proxy.place.buffer)
        with closing(WireClient(proxy.address)) as another:
            new = batch_of([plain(4), plain(5, **LATER)], base_sequence=4, **ids)
            assert sent(another, proxy.place.topic, new).error_code == ErrorCode.NONE
        assert numbers(proxy, proxy.place.topic, 2) == [0, 2, 4]
        assert numbers(proxy, proxy.place.buffer, 2) == [1, 3, 5]


def forgotten(proxy: Proxy, producer_id: int, *topics: str) -> None:
    soon(lambda: not any(knows(proxy, topic, producer_id) for topic in topics))


def test_a_producer_that_only_the_buffer_has_forgotten_goes_on_and_is_refused_on_a_new_connection(
    forgetful: Kafka,
) -> None:
    """How many records it has delayed is known to the connection; else nobody knows."""
    assert any(only_the_buffer_forgets(forgetful) for _ in range(TRIES))


def only_the_buffer_forgets(forgetful: Kafka) -> bool:
    """Whether the target still knew the producer when it was to be refused: where this machine stands still for as
    long as brokers remember, both have forgotten it, and it goes on from any sequence."""
    with ExitStack() as stack:
        proxy = proxy_to(forgetful, stack)
        stack.enter_context(proxy.open())
        with closing(WireClient(proxy.address)) as client:
            ids = new_producer(client)
            first = batch_of([plain(0), plain(1, **LATER)], base_sequence=0, **ids)
            assert sent(client, proxy.place.topic, first).error_code == ErrorCode.NONE
            sequence = 2
            until_s = CLOCK.monotonic_s() + 30
            while knows(proxy, proxy.place.buffer, ids["producer_id"]):
                assert CLOCK.monotonic_s() < until_s
                batch = batch_of([plain(sequence)], base_sequence=sequence, **ids)
                assert sent(client, proxy.place.topic, batch).error_code == ErrorCode.NONE
                sequence += 1
            with closing(WireClient(proxy.address)) as another:
                refused = batch_of([plain(sequence)], base_sequence=sequence, **ids)
                answer = sent(another, proxy.place.topic, refused)
                if answer.error_code == ErrorCode.NONE:
                    return False
                assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            delayed = batch_of([plain(sequence), plain(sequence + 1, **LATER)], base_sequence=sequence, **ids)
            assert sent(client, proxy.place.topic, delayed).error_code == ErrorCode.NONE
        assert numbers(proxy, proxy.place.topic, 2) == [0, *range(2, sequence + 1)]
        assert numbers(proxy, proxy.place.buffer, 2) == [1, sequence + 1]
    return True


@pytest.mark.thorough
def test_idempotent_libraries_survive_pauses_in_which_they_are_forgotten(forgetful: Kafka) -> None:
    with ExitStack() as stack:
        proxy = proxy_to(forgetful, stack)
        stack.enter_context(proxy.open())
        load = Load(proxy, Random(SEED))
        for _ in range(3):
            load.send(100)
            load.finish()
            soon(lambda: not any_known(proxy))
        found = held(forgetful.bootstrap_servers, proxy.place.topic)
        found += held(forgetful.bootstrap_servers, proxy.place.buffer)
        assert sorted(int(one.value()) for one in found) == list(range(300))


def any_known(proxy: Proxy) -> bool:
    request = transactions.DescribeProducersRequest(
        [transactions.ProducersTopic(topic, [0, 1]) for topic in (proxy.place.topic, proxy.place.buffer)]
    )
    with closing(WireClient(proxy.place.kafka.bootstrap_servers)) as client:
        answer = client.ask(request, 0, transactions.DescribeProducersResponse)
    return any(one.active_producers for topic in answer.topics for one in topic.partitions)


# --- SCRAM


@pytest.mark.parametrize("mechanism", sample(["SCRAM-SHA-256", "SCRAM-SHA-512"], every=2))
def test_clients_and_the_proxy_itself_log_in_by_scram(forgetful: Kafka, mechanism: str) -> None:
    with ExitStack() as stack:
        proxy = proxy_to(forgetful, stack)
        for user in ("carol", "dave"):
            make_user(proxy, user, mechanism)
        access = read_access(login("dave", mechanism))
        ledger = proxy.limit("requests_per_second = 1000").kafka
        stack.enter_context(proxy.open(bootstrap=parse_servers(forgetful.sasl_servers), access=access))
        answered: list[Any] = []
        producer = Producer({"bootstrap.servers": proxy.address, **login("carol", mechanism)})
        for n in range(10):
            producer.produce(
                proxy.place.topic,
                value=b"v%d" % n,
                partition=0,
                headers=DELAY if n % 2 else [],
                on_delivery=lambda error, _: answered.append(error),
            )
        assert producer.flush(20) == 0
        assert answered == [None] * 10
        assert numbers(proxy, proxy.place.topic, 2) == [0, 2, 4, 6, 8]
        assert numbers(proxy, proxy.place.buffer, 2) == [1, 3, 5, 7, 9]
        wrong = {**login("carol", mechanism), "sasl.password": "wrong", "message.timeout.ms": 1500, "log_level": 0}
        refused = Producer({"bootstrap.servers": proxy.address, **wrong})
        refused.produce(proxy.place.topic, value=b"v99", on_delivery=lambda error, _: answered.append(error))
        refused.flush(10)
        assert answered[-1] is not None
        assert [account.principal for account, _ in ledger.accounts()] == ["User:carol"]


def make_user(proxy: Proxy, user: str, mechanism: str) -> None:
    info = ScramCredentialInfo(getattr(ScramMechanism, mechanism.replace("-", "_")), 4096)
    upsertion = UserScramCredentialUpsertion(user, info, f"{user}-secret".encode())
    for future in proxy.place.admin.alter_user_scram_credentials([upsertion]).values():
        future.result(10)


def login(user: str, mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


# --- certificates


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["location", "pem"])
def test_the_proxy_itself_is_known_by_its_certificate_and_its_clients_are_not(
    encrypted: Kafka, certificates: Path, way: str
) -> None:
    """Clients have none here, and are the anonymous user, who may do everything. The proxy's user may do what no
    rule forbids."""
    files = {"ca": "broker.crt", "certificate": "proxy.crt", "key": "proxy.key"}
    properties = {"security.protocol": "ssl"}
    for what, file in files.items():
        path = certificates / file
        properties[f"ssl.{what}.{way}"] = str(path) if way == "location" else path.read_text()
    with ExitStack() as stack:
        proxy = proxy_to(encrypted, stack)
        servers = parse_servers(encrypted.sasl_servers)
        stack.enter_context(proxy.open(bootstrap=servers, access=read_access(properties), append_s=0.5))
        with closing(WireClient(proxy.address)) as client:
            ids = new_producer(client)
            mixed = batch_of([plain(0), plain(1, **LATER)], base_sequence=0, **ids)
            assert sent(client, proxy.place.topic, mixed).error_code == ErrorCode.NONE
            done(proxy.place.admin.create_acls([acl("bob", ResourceType.TOPIC, proxy.place.buffer)]))
            delayed = batch_of([plain(2, **LATER)], base_sequence=2, **ids)
            refused = soon(lambda: sent(client, proxy.place.topic, delayed).error_code)
            assert refused == ErrorCode.NOT_ENOUGH_REPLICAS
            at_once = batch_of([plain(3)], base_sequence=2, **ids)
            soon(lambda: sent(client, proxy.place.topic, at_once).error_code == ErrorCode.NONE)
        assert numbers(proxy, proxy.place.topic, 2) == [0, 3]
        assert numbers(proxy, proxy.place.buffer, 2) == [1]
