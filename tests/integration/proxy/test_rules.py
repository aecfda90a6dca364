"""Rules for single topics, for Kafka clients: delays that nobody asked for, and topics that take no more."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from delayline.schedule.rules import Rules
from mq.kafka.librdkafka.bodies import Headers
from tests.integration.kafka.conftest import CLOCK
from tests.integration.proxy.child import Child
from tests.integration.proxy.conftest import Proxy, consumed
from tests.integration.proxy.test_split import DELAY, in_buffer, in_target, produced

DEFAULT_MS = 1500
AT_ONCE: Headers = [("delay-ms", b"0")]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_records_without_a_directive_wait_where_the_topic_has_a_default_delay(
    proxy: Proxy, codec: str, idempotent: bool
) -> None:
    proxy.make_topic(1)
    values = [(b"%d" % n, AT_ONCE if n % 3 == 1 else []) for n in range(30)]
    with proxy.open(rules_for=lambda _: Rules(default_delay_ms=60_000)):
        answers = produced(proxy, values, **{"compression.type": codec, "enable.idempotence": idempotent})
        assert answers == [None] * 30
        assert in_target(proxy, 10) == [n for n in range(30) if n % 3 == 1]
        first, *rest = consumed(proxy.place.kafka.bootstrap_servers, proxy.place.buffer, 21)
    assert dict(first.headers()).keys() == {"delayline-rules"}
    assert [int(one.value()) for one in rest] == [n for n in range(30) if n % 3 != 1]


def test_a_record_without_a_directive_is_delivered_when_the_default_delay_is_over(
    proxy: Proxy, tmp_path: Path
) -> None:
    proxy.make_topic(1)
    environ = {
        "DELAYLINE_API__PORT": "0",
        "DELAYLINE_DATA_DIR": str(tmp_path / "data"),
        "DELAYLINE_DELAY__DISCOVERY_INTERVAL": "200ms",
        "DELAYLINE_DELAY__RULE": f'[{{"topics": "orders-*", "default_delay": "{DEFAULT_MS}ms"}}]',
    }
    with closing(Child(proxy, tmp_path, ("serve",), environ)) as child:
        child.start()
        producer = Producer({"bootstrap.servers": proxy.address})
        sent_ms = CLOCK.now_ms()
        for n in range(10):
            producer.produce(proxy.place.topic, value=b"%d" % n, headers=AT_ONCE if n % 2 else [])
        assert producer.flush(20) == 0
        found = consumed(proxy.address, proxy.place.topic, 10, 30)
        assert [int(one.value()) for one in found] == [*range(1, 10, 2), *range(0, 10, 2)]
        for one in found[5:]:
            headers = dict(one.headers())
            assert one.timestamp()[1] >= int(headers["delayline-due"]) >= sent_ms + DEFAULT_MS
            assert headers["delayline-id"].endswith(headers["delayline-due"])
        assert child.stop() == 0


def test_a_full_topic_refuses_what_would_wait_and_takes_it_when_there_is_room(opened: Proxy) -> None:
    opened.make_topic(1)
    assert produced(opened, [(b"1", DELAY)]) == [None]
    opened.full = "it is full"
    cancel = [("delay-op", b"cancel"), ("delay-ref", f"{opened.place.topic}.0.0.1767225600000".encode())]
    (refused,) = produced(opened, [(b"2", DELAY)])
    assert refused.code() == KafkaError.POLICY_VIOLATION
    assert produced(opened, [(b"3", []), (b"4", AT_ONCE)]) == [None, None]
    assert produced(opened, [(b"5", cancel)]) == [None]
    opened.full = None
    assert produced(opened, [(b"6", DELAY)]) == [None]
    assert (in_target(opened, 2), in_buffer(opened, 3)) == ([3, 4], [1, 5, 6])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_topic_with_as_many_repeats_as_it_may_have_takes_everything_else(opened: Proxy, codec: str) -> None:
    opened.make_topic(1)
    opened.full_of_repeats = "full of repeats"
    for repeat in ([("delay-every", b"1h")], [("delay-cron", b"0 9 * * *")]):
        answers = produced(opened, [(b"1", DELAY), (b"2", repeat)], **{"compression.type": codec})
        assert [error.code() for error in answers] == [KafkaError.POLICY_VIOLATION] * 2
    assert produced(opened, [(b"3", DELAY), (b"4", [])]) == [None, None]
    assert (in_target(opened, 1), in_buffer(opened, 1)) == ([4], [3])


def test_one_producer_goes_on_behind_a_refusal(opened: Proxy) -> None:
    opened.make_topic(1)
    producer = Producer({"bootstrap.servers": opened.address, "enable.idempotence": True, "linger.ms": 0})
    answered = []
    for number in range(9):
        opened.full = "it is full" if number in (3, 4) else None
        headers = DELAY if number % 2 else []
        producer.produce(
            opened.place.topic, b"%d" % number, headers=headers, on_delivery=lambda error, _: answered.append(error)
        )
        assert producer.flush(30) == 0
    assert [error and error.code() for error in answered] == [
        KafkaError.POLICY_VIOLATION if number == 3 else None for number in range(9)
    ]
    assert (in_target(opened, 5), in_buffer(opened, 3)) == ([0, 2, 4, 6, 8], [1, 5, 7])


def test_aiokafka_gets_the_error_of_a_full_topic(opened: Proxy) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import PolicyViolationError

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=opened.address) as producer:
            await producer.send_and_wait(opened.place.topic, b"1", headers=DELAY)

    opened.make_topic(1)
    opened.full = "it is full"
    with pytest.raises(PolicyViolationError):
        asyncio.run(send())
