"""What other people's clients do through the proxy, and what they feel of it: `make foreign-clients`.

Where a client differs from the others it is named here, and stands in the table of docs/kafka-clients.md.
"""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mq.kafka.librdkafka.bodies import Headers
from tests.acceptance.on_kafka import PARTITIONS, make_topic, settings_of
from tests.brokers.distribution import Unavailable
from tests.conftest import required, started
from tests.fault.server import Server
from tests.foreign.programs import PROGRAMS, STREAMS_VERSION, java
from tests.integration.kafka.conftest import soon
from tests.ports import free_range

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

pytestmark = pytest.mark.foreign

COUNT = 300
RUN_S = 180.0
STREAMS_S = 25
SHOWS_MARKERS = {"kafka-go"}
"""Their consumers show the control records of transactions as messages without a value."""
STOPS_AT_MARKERS = {"rskafka"}
"""Their consumers cannot read control records of Kafka 4, with the brokers alone either."""
ENDS_WHEN_REFUSED = {"kafka-python"}
"""Their idempotent producers take a refused batch for fatal, and send nothing any more."""


@dataclass(frozen=True)
class Installation:
    """A broker, and a server with a worker and the proxy before it."""

    kafka: "KafkaAt"
    proxy: str

    def topic(self, name: str) -> str:
        made = f"orders-{''.join(letter if letter.isalnum() else '-' for letter in name.lower())}"
        make_topic(self.kafka, made)
        return made

    def values(self, topic: str, at_least: int) -> Counter[str]:
        """Everything committed in the topic, once there are so many different values; none of it early."""
        seen: Counter[str] = Counter()
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "judge"}
        with closing(Consumer({**settings, "isolation.level": "read_committed"})) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

            def all_there() -> bool:
                for message in consumer.consume(1000, 0.5):
                    assert message.error() is None
                    due_ms = dict(message.headers() or []).get("delayline-due")
                    if due_ms is not None:
                        assert message.timestamp()[1] >= int(due_ms), "early"
                    seen[(message.value() or b"").decode()] += 1
                return len(seen) >= at_least

            soon(all_there, 60.0)
            assert not consumer.consume(1, 2.0), "more than was to come"
        return seen


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    from tests.brokers.kafka import Kafka

    with ExitStack() as stack:
        kafka = stack.enter_context(started(Kafka))
        port = free_range(4)
        settings = {**settings_of(kafka), "proxy__kafka__port": str(port), "proxy__kafka__nodes_max": "3"}
        server = Server(tmp_path_factory.mktemp("foreign") / "data", **settings)
        stack.callback(server.kill)
        server.start()
        server.wait_ready()
        yield Installation(kafka, f"127.0.0.1:{port}")


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    name = str(request.param)
    return name, available(name)


def available(name: str) -> list[str]:
    with required(name):
        return PROGRAMS[name]()


def output_of(command: list[str], *arguments: str) -> list[list[str]]:
    """What it printed, each line in its words."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return [line.split(" ", 3 if line.startswith("read") else 2) for line in done.stdout.splitlines()]


def test_what_is_acknowledged_arrives_once_and_not_early(
    installation: Installation, program: tuple[str, list[str]]
) -> None:
    name, command = program
    topic = installation.topic(f"sent-{name}")
    lines = output_of(command, "produce", installation.proxy, topic, str(COUNT))
    acked = {words[1] for words in lines if words[0] == "acked"}
    assert len(acked) == COUNT, [words for words in lines if words[0] == "failed"][:5]
    assert installation.values(topic, COUNT) == Counter(acked)


def test_a_consumer_reads_what_was_delivered(installation: Installation, program: tuple[str, list[str]]) -> None:
    name, command = program
    topic = installation.topic(f"read-{name}")
    producer = Producer({"bootstrap.servers": installation.proxy})
    for n in range(COUNT):
        headers: Headers = [("delay", b"1s")] if n % 3 == 0 else []
        producer.produce(topic, b"%d" % n, key=b"%d" % n, headers=headers)
    producer.flush()
    expected = installation.values(topic, COUNT)
    lines = output_of(command, "consume", installation.proxy, topic, str(COUNT + (name in SHOWS_MARKERS)))
    read = Counter(words[3] if len(words) > 3 else "" for words in lines if words[0] == "read")
    shown = Counter({value: times for value, times in read.items() if value in expected})
    print(f"\n{name}: {len(shown)} of {COUNT}, beside them {read - shown}")
    if name in STOPS_AT_MARKERS:
        assert not shown - expected
    else:
        assert shown == expected
    assert name in SHOWS_MARKERS or not read - shown


def test_an_invalid_directive_fails_its_record_and_not_the_next(
    installation: Installation, program: tuple[str, list[str]]
) -> None:
    name, command = program
    topic = installation.topic(f"refused-{name}")
    first, second = output_of(command, "refused", installation.proxy, topic)[:2]
    print(f"\n{name}: {' '.join(first)} | {' '.join(second)}")
    assert first[0] == "failed"
    assert second[0] == ("failed" if name in ENDS_WHEN_REFUSED else "acked")


def test_kafka_streams_delays_inside_its_transactions(installation: Installation) -> None:
    try:
        command = java(STREAMS_VERSION, "Streams")
    except Unavailable as error:
        pytest.skip(str(error))
    source, target = installation.topic("streams-from"), installation.topic("streams-to")
    producer = Producer({"bootstrap.servers": installation.kafka.bootstrap_servers})
    for n in range(COUNT):
        producer.produce(source, b"%d" % n, key=b"%d" % n)
    producer.flush()
    lines = output_of(command, "pipe", installation.proxy, source, target, str(STREAMS_S))
    assert [words for words in lines if words[0] == "failed"] == []
    assert installation.values(target, COUNT) == Counter(str(n) for n in range(COUNT))


def test_kcat_sends_with_a_delay(installation: Installation, tmp_path: Path) -> None:
    topic = installation.topic("kcat")
    text = tmp_path / "values"
    text.write_text("".join(f"{n}\n" for n in range(COUNT)))
    command = ["kcat", "-P", "-b", installation.proxy, "-t", topic, "-H", "delay=1s", "-l", str(text)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=RUN_S)
    except FileNotFoundError:
        pytest.skip("there is no kcat on the path")
    assert installation.values(topic, COUNT) == Counter(str(n) for n in range(COUNT))
