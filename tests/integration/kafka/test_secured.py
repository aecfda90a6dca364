"""The wire path by SASL over TLS: encrypted, with a certificate of its own, and by every mechanism that it speaks.

The broker lets nobody in without a certificate, and has everybody authenticate anew every few seconds (KIP-368).
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.client.address import parse_servers
from kafkawire.client.metadata import Nodes
from kafkawire.client.reader import WireReader
from kafkawire.client.reading import At
from kafkawire.security.access import PASSWORDS, read_access
from tests.brokers.certificates import make_certificate, make_keystore
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place
from tests.integration.kafka.whole_worker import ROUND, arrived, delivers_in_rounds, send, working

SESSION_MS = 2000
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `one.key` and `one.crt`, by which everybody here shows who he is, and both in `one.pem`."""
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder, "one", "127.0.0.1")
    make_keystore(folder, "one", "of-the-store")
    return folder


@pytest.fixture(scope="module")
def broker(certificate: Path) -> Iterator[Kafka]:
    listener = "listener.name.sasl"
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(PASSWORDS),
        f"{listener}.scram-sha-256.sasl.jaas.config": SCRAM,
        f"{listener}.scram-sha-512.sasl.jaas.config": SCRAM,
        f"{listener}.connections.max.reauth.ms": str(SESSION_MS),
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(certificate / "one.pem"),
        f"{listener}.ssl.truststore.type": "PEM",
        f"{listener}.ssl.truststore.location": str(certificate / "one.crt"),
        f"{listener}.ssl.client.auth": "required",
        "connection.failed.authentication.delay.ms": "0",
    }
    with started(lambda: Kafka(properties=properties)) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            known = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), b"alice-secret")
            for future in admin.alter_user_scram_credentials([known]).values():
                future.result(PATIENCE_S)
        yield kafka


def properties(certificate: Path, mechanism: str = "PLAIN", password: str = "alice-secret") -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificate / "one.crt"),
        "ssl.certificate.location": str(certificate / "one.crt"),
        "ssl.key.location": str(certificate / "one.key"),
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def shown(certificate: Path, way: str) -> dict[str, str]:
    """Whom we trust, and who we are, in other ways than by files."""
    authority = (certificate / "one.crt").read_text()
    if way == "PEM":
        return {
            "ssl.ca.pem": authority,
            "ssl.certificate.pem": authority,
            "ssl.key.pem": (certificate / "one.key").read_text(),
        }
    return {
        "ssl.ca.pem": authority,
        "ssl.keystore.location": str(certificate / "one.p12"),
        "ssl.keystore.password": "of-the-store",
    }


@pytest.mark.parametrize("way", ["PEM", "PKCS#12"])
def test_a_worker_is_known_by_a_certificate_that_is_no_file_of_pem(
    broker: Kafka, certificate: Path, way: str
) -> None:
    if way == "PKCS#12":
        pytest.importorskip("cryptography", reason="no PKCS#12: the package cryptography is not installed")
    login = {name: value for name, value in properties(certificate).items() if not name.startswith("ssl.")}
    with ExitStack() as stack:
        place = Place(broker, stack)
        place.make_topic(message_timestamp_type="LogAppendTime")
        given: dict[str, Any] = {"properties": {**login, **shown(certificate, way)}}
        queue = place.queue(bootstrap_servers=broker.sasl_servers, **given)
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        with working(place, queue):
            send(place, queue, range(ROUND), 0)
            assert arrived(place, queue, ROUND) == list(range(ROUND))


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_worker_delivers_each_message_once_through_sessions_that_end(
    broker: Kafka, certificate: Path, mechanism: str
) -> None:
    with ExitStack() as stack:
        place = Place(broker, stack)
        place.make_topic(message_timestamp_type="LogAppendTime")
        given: dict[str, Any] = {"properties": properties(certificate, mechanism)}
        queue = place.queue(bootstrap_servers=broker.sasl_servers, **given)
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        with working(place, queue) as worker:
            delivers_in_rounds(place, queue, worker, SESSION_MS / 1000)


def test_a_wrong_password_is_reported_and_keeps_nobody_from_waiting(broker: Kafka, certificate: Path) -> None:
    access = read_access(properties(certificate, password="wrong"))
    with (
        closing(Nodes(parse_servers(broker.sasl_servers), access, "test", 10, CLOCK)) as nodes,
        closing(WireReader(nodes, 10, CLOCK)) as reader,
    ):
        reader.assign(At("orders", 0), 0)
        found = [list(reader.read(10, 0.2)) for _ in range(3)]
        assert (found, reader.reported) == ([[]] * 3, {"leaders of orders"})
