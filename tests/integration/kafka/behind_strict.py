"""The proxy and the reconcile job on a broker that allows what its ACLs allow: what they do, each raises where it is
refused."""

from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, Producer

from delayline.records.message import Shard
from kafkawire.client.address import parse_servers
from mq.contract import Append
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Pattern
from mq.kafka.librdkafka.bodies import Headers
from mq.kafka.planned.ranges import read_range
from proxy.kafka.access import read_access
from reconcile.logic.plan import Range
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, body, soon
from tests.integration.kafka.strict import CLIENT, REFUSED_S, Strict, login
from tests.integration.proxy.conftest import Proxy, held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mq.kafka.queue import KafkaQueue
    from reconcile.readers.kafka import KafkaReader

DELAYED: Headers = [("delay", b"1h")]


class Refused(AssertionError):
    """What a client was answered."""


# --- the proxy


def allow_client(place: Strict) -> None:
    """What a client needs of its own: to write to the topic, also in transactions."""
    topic = Pattern("topic", LITERAL, place.topic)
    ids = Pattern("transactional-id", PREFIXED, place.client_id)
    place.grant([Acl(topic, "Write"), Acl(ids, "Write")], CLIENT)


@contextmanager
def proxying(place: Strict, queue: "KafkaQueue", proxy: Proxy | None = None) -> "Iterator[Proxy]":
    proxy = proxy or Proxy(place, place.stack)
    access = read_access(login("alice"))
    with proxy.open(queue=queue, bootstrap=parse_servers(place.kafka.sasl_servers), access=access, append_s=1.0):
        yield proxy


def client(address: str, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            **login("bob"),
            "enable.idempotence": True,
            "message.timeout.ms": int(REFUSED_S * 1000),
            "linger.ms": 50,
            **settings,
        }
    )


def produce(producer: Producer, topic: str, *headers: Headers) -> list[KafkaError | None]:
    """The error, or None, of a record with each of these headers."""
    errors: list[KafkaError | None] = []
    for number, one in enumerate(headers):
        producer.produce(
            topic, b"%d" % number, partition=0, headers=one, on_delivery=lambda error, _: errors.append(error)
        )
    producer.flush(PATIENCE_S)
    return errors


def _accepted(errors: Sequence[KafkaError | None]) -> None:
    if any(errors):
        raise Refused(str(errors))


def pass_on(place: Strict, queue: "KafkaQueue") -> None:
    allow_client(place)
    with proxying(place, queue) as proxy:
        _accepted(produce(client(proxy.address), place.topic, [], DELAYED))
    assert [len(held(place.kafka.bootstrap_servers, one)) for one in (place.topic, place.buffer)] == [1, 1]


def pass_on_in_a_transaction(place: Strict, queue: "KafkaQueue") -> None:
    allow_client(place)
    with proxying(place, queue) as proxy:
        producer = client(proxy.address, **{"transactional.id": place.client_id})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        errors = produce(producer, place.topic, [], DELAYED)
        _accepted(errors)
        producer.commit_transaction(PATIENCE_S)
    assert [len(held(place.kafka.bootstrap_servers, one)) for one in (place.topic, place.buffer)] == [1, 1]


def pass_on_over_a_new_connection(place: Strict, queue: "KafkaQueue") -> None:
    """Of a producer that has sent already: the proxy asks partitions what they have of it."""
    allow_client(place)
    proxy = Proxy(place, place.stack)
    with proxying(place, queue, proxy):
        producer = client(proxy.address)
        _accepted(produce(producer, place.topic, [], DELAYED))
    with proxying(place, queue, proxy):
        _accepted(produce(producer, place.topic, [], DELAYED))


# --- the reconcile job


def _reading(doing: "Callable[[Strict, KafkaReader], object]") -> "Callable[[Strict, KafkaQueue], object]":
    def read(place: Strict, queue: "KafkaQueue") -> None:
        from reconcile.readers.kafka import KafkaReader

        place.make_buffer()
        with closing(KafkaReader(queue.settings, CLOCK)) as reader:
            doing(place, reader)

    return read


def _read_accepted(place: Strict, reader: "KafkaReader") -> None:
    assert reader.held().buffers[place.topic].shards[0] == Range(0, 1)
    assert not reader.is_empty(place.topic, 0, Range(0, 1))


def _read_delivered(place: Strict, reader: "KafkaReader") -> None:
    place.root.append([Append(place.topic, "0", body(b"1"))]).result(PATIENCE_S)
    settings = place.as_delayline().settings
    assert [len(chunk) for chunk in read_range(settings, CLOCK, place.topic, 0, 0, 1)] == [1]


def _commit(place: Strict, reader: "KafkaReader") -> None:
    reader.commit({place.topic: {0: 1}}, {0: 0}, CLOCK.now_ms())
    assert soon(lambda: place.root.audited(Shard(place.topic, "0")))


read_accepted = _reading(_read_accepted)
read_delivered = _reading(_read_delivered)
read_kept = _reading(lambda place, reader: reader.kept_since_ms(place.topic))
commit = _reading(_commit)


def _read_rules(place: Strict, reader: "KafkaReader") -> None:
    place.root.trim(place.shard, 1)
    reader.rules(place.topic, [0])


read_rules = _reading(_read_rules)
