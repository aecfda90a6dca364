"""Our own client by Kerberos (SASL GSSAPI), with a real KDC. It is tried without librdkafka: the one inside the
packages of confluent-kafka was built without Cyrus SASL, and cannot log in so.

Needs `krb5kdc` and the package `gssapi`; skipped without them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kafkawire.client.address import parse_servers
from kafkawire.client.aio import connect
from kafkawire.client.metadata import Nodes
from kafkawire.protocol.errors import NotAuthenticated, NoToken
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.security.access import read_access
from tests.brokers.distribution import Unavailable
from tests.brokers.kafka import QUICK_START, Kafka
from tests.brokers.kerberos import Realm, realm
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK

SESSION_MS = 2000
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    pytest.importorskip("gssapi", reason="no Kerberos: the package gssapi is not installed", exc_type=ImportError)
    with pytest.MonkeyPatch.context() as patched:
        try:
            with realm(tmp_path_factory.mktemp("realm")) as made:
                patched.setenv("KRB5_CONFIG", str(made.config))
                yield made
        except Unavailable as error:
            pytest.skip(f"no KDC: {error}")


@pytest.fixture(scope="module")
def broker(kerberos: Realm) -> Iterator[Kafka]:
    principal = "kafka/127.0.0.1"
    listener = "listener.name.sasl.gssapi"
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        f"{listener}.sasl.jaas.config": f'{MODULE} keyTab="{kerberos.keytab(principal)}" principal="{principal}";',
        f"{listener}.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "0",
    }
    options = [*QUICK_START, f"-Djava.security.krb5.conf={kerberos.config}"]
    with started(lambda: Kafka(properties=properties, java_options=options)) as kafka:
        AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).create_topics([NewTopic("orders", 2, 1)])
        yield kafka


@pytest.fixture(scope="module")
def keytab(kerberos: Realm) -> Path:
    return kerberos.keytab("alice")


def properties(keytab: Path | str, principal: str = "alice") -> dict[str, str]:
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": principal,
        "sasl.kerberos.keytab": str(keytab),
    }


@contextmanager
def reaching(broker: Kafka, given: dict[str, str]) -> Iterator[Nodes]:
    with closing(Nodes(parse_servers(broker.sasl_servers), read_access(given), "test", 10, CLOCK)) as nodes:
        yield nodes


def test_our_client_logs_in_by_a_keytab_and_again_before_its_session_ends(broker: Kafka, keytab: Path) -> None:
    with reaching(broker, properties(keytab)) as nodes:
        asked = nodes.any_connection()
        left_s = asked.use_until_s - CLOCK.monotonic_s()
        assert 0 < left_s <= 0.8 * SESSION_MS / 1000
        until_s = CLOCK.monotonic_s() + 2 * SESSION_MS / 1000
        while CLOCK.monotonic_s() < until_s:
            assert nodes.ids() == [1]
        assert nodes.any_connection() is not asked


def test_the_proxys_own_connections_log_in_so_too(broker: Kafka, keytab: Path) -> None:
    async def asked() -> MetadataResponse:
        (address,) = parse_servers(broker.sasl_servers)
        connection = await connect(address, read_access(properties(keytab)), "test", 10, CLOCK)
        try:
            return await connection.ask(MetadataRequest(topics=[]), 12, MetadataResponse, 10)
        finally:
            connection.close()

    assert asyncio.run(asked()).brokers


def test_a_keytab_that_is_not_there_is_reported(broker: Kafka) -> None:
    with reaching(broker, properties("/nowhere/keytab")) as nodes, pytest.raises(NoToken, match=r"kerberos\.keytab"):
        nodes.ids()


def test_a_principal_that_nobody_knows_is_reported(broker: Kafka, keytab: Path) -> None:
    with reaching(broker, properties(keytab, "mallory")) as nodes, pytest.raises(NoToken, match="principal"):
        nodes.ids()


def test_a_service_that_the_realm_does_not_know_is_reported(broker: Kafka, keytab: Path) -> None:
    given = {**properties(keytab), "sasl.kerberos.service.name": "queue"}
    with reaching(broker, given) as nodes, pytest.raises(NotAuthenticated, match="GSSAPI"):
        nodes.ids()


def test_the_librdkafka_of_the_packages_reports_that_it_was_built_without(broker: Kafka, keytab: Path) -> None:
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        AdminClient({"bootstrap.servers": broker.sasl_servers, **properties(keytab)})
