"""A worker that logs in by tokens (SASL OAUTHBEARER): its records over the wire, everything else over librdkafka, and
both by the tokens of one source. The broker checks signatures, and has everybody authenticate anew every few seconds.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.client.address import parse_servers
from kafkawire.client.metadata import Nodes
from kafkawire.protocol.errors import NotAuthenticated, NoToken
from kafkawire.security.access import read_access
from mq.errors import QueueError
from proxy.kafka.access import read_access as proxy_access
from tests.brokers.kafka import QUICK_START, Kafka
from tests.brokers.oidc import AUDIENCE, Asked, Issuer, endpoint, granting
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, soon
from tests.integration.kafka.whole_worker import ROUND, arrived, delivers_in_rounds, send, working
from tests.integration.proxy.conftest import Proxy, held

SESSION_MS = 2000
LIFE_S = 12
"""Of a token."""
BEARER = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def broker(issuer: Issuer) -> Iterator[Kafka]:
    listener = "listener.name.sasl.oauthbearer"
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.sasl.jaas.config": MODULE,
        f"{listener}.sasl.server.callback.handler.class": VALIDATOR,
        f"{listener}.sasl.oauthbearer.jwks.endpoint.url": issuer.jwks.as_uri(),
        f"{listener}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{listener}.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "0",
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.jwks.as_uri()}"
    with started(lambda: Kafka(properties=properties, java_options=[*QUICK_START, allowed])) as kafka:
        yield kafka


def oidc(url: str, user: str = "alice") -> dict[str, str]:
    return {
        **BEARER,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": user,
        "sasl.oauthbearer.client.secret": "alice-secret",
        "sasl.oauthbearer.extensions": "traceId=7",
    }


def bound(broker: Kafka, stack: ExitStack, properties: Mapping[str, str]) -> tuple[Place, Any]:
    """A topic, and a queue that logs in so and has a buffer for it."""
    place = Place(broker, stack)
    place.make_topic(message_timestamp_type="LogAppendTime")
    given: dict[str, Any] = {"properties": properties}
    queue = place.queue(bootstrap_servers=broker.sasl_servers, **given)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    return place, queue


def test_a_worker_delivers_each_message_once_through_tokens_that_expire(broker: Kafka, issuer: Issuer) -> None:
    asked: list[str] = []

    def answer(who: Asked) -> "tuple[int, Iterator[bytes] | bytes]":
        asked.append(who.user)
        return granting(issuer, LIFE_S)(who)

    with endpoint(answer) as url, ExitStack() as stack:
        place, queue = bound(broker, stack, oidc(url))
        with working(place, queue) as worker:
            delivers_in_rounds(place, queue, worker, LIFE_S / 2)
    assert 2 <= len(asked) <= 8, "one token for every client, each used for most of its life"


def test_a_worker_outlives_an_endpoint_that_is_away_for_longer_than_a_token_lives(
    broker: Kafka, issuer: Issuer
) -> None:
    away_s = [0.0, 0.0]

    def answer(who: Asked) -> "tuple[int, Iterator[bytes] | bytes]":
        away = away_s[0] <= CLOCK.monotonic_s() < away_s[1]
        return (503, b"away") if away else granting(issuer, LIFE_S)(who)

    with endpoint(answer) as url, ExitStack() as stack:
        place, queue = bound(broker, stack, oidc(url))
        with working(place, queue) as worker:
            soon(lambda: len(worker.statuses) == 2 and worker.ready)
            send(place, queue, range(ROUND), 0)
            arrived(place, queue, ROUND)
            away_s[:] = CLOCK.monotonic_s(), CLOCK.monotonic_s() + 2 * LIFE_S
            soon(lambda: CLOCK.monotonic_s() > away_s[1])
            soon(lambda: sent(place, queue, range(ROUND, 2 * ROUND)))
            assert arrived(place, queue, 2 * ROUND) == list(range(2 * ROUND))


def sent(place: Place, queue: Any, numbers: range) -> bool:
    try:
        send(place, queue, numbers[:1], 0)
    except QueueError:
        return False
    send(place, queue, numbers[1:], 0)
    return True


def test_the_kafka_proxy_logs_in_by_tokens_of_its_own_and_hands_on_those_of_its_clients(
    broker: Kafka, issuer: Issuer
) -> None:
    clients = {**BEARER, "oauth_cb": lambda _: (issuer.token("bob"), time.time() + 3600)}
    with endpoint(granting(issuer, LIFE_S)) as url, ExitStack() as stack:
        proxy = Proxy(Place(broker, stack), stack)
        proxy.make_topic(1)
        servers = parse_servers(broker.sasl_servers)
        stack.enter_context(proxy.open(bootstrap=servers, access=proxy_access(oidc(url))))
        producer = Producer({"bootstrap.servers": proxy.address, **clients})
        producer.produce(proxy.place.topic, b"later", headers={"delay": "1h"})
        producer.produce(proxy.place.topic, b"now")
        assert producer.flush(PATIENCE_S) == 0
        found = [held(broker.bootstrap_servers, topic) for topic in (proxy.place.topic, proxy.place.buffer)]
        assert [[one.value() for one in records] for records in found] == [[b"now"], [b"later"]]


@pytest.mark.parametrize("way", ["file", "command"])
def test_a_worker_with_tokens_of_a_file_or_a_command_delivers(
    broker: Kafka, issuer: Issuer, tmp_path: Path, way: str
) -> None:
    (file := tmp_path / "token").write_text(issuer.token("alice"))
    source = str(file) if way == "file" else f"cat {file}"
    with ExitStack() as stack:
        place, queue = bound(broker, stack, {**BEARER, f"delayline.oauthbearer.token.{way}": source})
        with working(place, queue):
            send(place, queue, range(ROUND), 0)
            assert arrived(place, queue, ROUND) == list(range(ROUND))


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (lambda issuer: issuer.token("alice", audience="others"), "invalid_token|Authentication failed"),
        (lambda issuer: issuer.token("alice", life_s=-60), "the token expired"),
        (lambda issuer: "opaque", "invalid_token|Authentication failed"),
    ],
)
def test_a_token_that_the_broker_does_not_take_is_reported(
    broker: Kafka, issuer: Issuer, tmp_path: Path, token: Callable[[Issuer], str], why: str
) -> None:
    (file := tmp_path / "token").write_text(given := token(issuer))
    access = read_access({**BEARER, "delayline.oauthbearer.token.file": str(file)})
    with (
        closing(Nodes(parse_servers(broker.sasl_servers), access, "test", 10, CLOCK)) as nodes,
        pytest.raises((NotAuthenticated, NoToken), match=why) as caught,
    ):
        nodes.ids()
    assert given not in str(caught.value)
