"""What the reader of the wire makes of leaders that change, and of a log that has lost its tail."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafkawire.batch.head import LENGTH_FROM, head_at
from kafkawire.client.reader import WireReader
from kafkawire.client.reading import At, Gone, Read
from tests.brokers.distribution import NEWEST, OLDER
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import soon
from tests.integration.kafka.test_reading import on_the_wire
from tests.tiers import sample
from tests.unit.mq.kafka.fetched_from import bodies


def made(broker: Kafka, *replicas: int) -> At:
    """A topic of one partition, on these nodes."""
    name = f"buffer-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topic = NewTopic(name, 1, replica_assignment=[list(replicas)], config={"message.timestamp.type": "LogAppendTime"})

    def create() -> bool:
        try:
            admin.create_topics([topic])[name].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError._DESTROY_BROKER:
                return False  # asked by a connection that librdkafka has just left for another one
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return True

    soon(create)
    return At(name, 0)


def append(broker: Kafka, at: At, count: int) -> None:
    """Each in a batch of its own."""
    writer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "linger.ms": 0})
    for number in range(count):
        writer.produce(at.topic, b"%d" % number)
        assert writer.flush(60) == 0


def epoch_of(reader: WireReader, at: At) -> int:
    return reader.readings[at].epoch


def read(reader: WireReader, at: At, count: int) -> list[Read]:
    """Until there are so many records, or it ends."""
    found: list[Read] = []
    soon(lambda: found.extend(reader.read(100, 0.1)) or len(bodies(found, at)) >= count or is_gone(found))
    return found


def is_gone(found: list[Read]) -> bool:
    return any(isinstance(one, Gone) for one in found)


BROKERS = [NEWEST, OLDER] if os.environ.get("ALL_BROKERS") else [NEWEST]
"""Three nodes take their time; `ALL_BROKERS=1` tries older ones, too."""


@pytest.fixture(scope="module", params=BROKERS)
def three(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kafka, Path]]:
    """And where their data lies."""
    folder = tmp_path_factory.mktemp("three")
    with started(lambda: Kafka(3, version=request.param, folder=folder)) as cluster:
        yield cluster, folder
        for node in cluster.nodes:
            node.kill()  # the last of three that stop waits long for the others


@pytest.mark.thorough
def test_leaders_that_change_without_a_loss_are_read_on(three: tuple[Kafka, Path]) -> None:
    """Killed and stopped, and written to meanwhile."""
    cluster, _ = three
    at = made(cluster, 1, 2, 3)
    epochs = []
    with on_the_wire(cluster.bootstrap_servers) as reader:
        reader.assign(at, 0)
        for number in range(4):
            append(cluster, at, 20)
            found = read(reader, at, 20)
            node = cluster.nodes[reader.nodes.leader(*at) - 1]
            node.kill() if number % 2 else node.stop()
            append(cluster, at, 5)
            found += read(reader, at, 5)
            node.start()
            cluster.wait_ready()
            assert (len(bodies(found, at)), is_gone(found)) == (25, False)
            epochs.append(epoch_of(reader, at))
    assert (epochs, len(set(epochs)) > 2) == (sorted(epochs), True)


def lose(log: Path, batches: int) -> None:
    """The last batches of a log, as if they had never reached the disk."""
    data, at, starts = log.read_bytes(), 0, []
    while at + LENGTH_FROM < len(data) and (length := head_at(data, at).length):
        starts.append(at)
        at += LENGTH_FROM + length
    log.write_bytes(data[: starts[-batches]])


def leader(cluster: Kafka, at: At) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return int(admin.list_topics(at.topic, timeout=10).topics[at.topic].partitions[0].leader)


def restart(cluster: Kafka, at: At, lost: int, log: Path) -> None:
    """The only replica's node is gone until the others have noticed, and so much of its log is lost."""
    cluster.nodes[2].kill()
    soon(lambda: leader(cluster, at) == -1)
    if lost:
        lose(log / f"{at.topic}-0" / f"{0:020}.log", lost)
    cluster.nodes[2].start()
    cluster.wait_ready()
    soon(lambda: leader(cluster, at) == 3)


@pytest.mark.parametrize("lost", sample([5, 0], every=2))
def test_a_log_is_read_on_unless_it_was_written_anew_below_what_was_read(
    three: tuple[Kafka, Path], lost: int
) -> None:
    cluster, folder = three
    at = made(cluster, 3)
    with on_the_wire(cluster.bootstrap_servers) as reader:
        reader.assign(at, 0)
        append(cluster, at, 20)
        assert len(bodies(read(reader, at, 20), at)) == 20
        restart(cluster, at, lost, folder / "3" / "data")
        append(cluster, at, 15)
        found = read(reader, at, 15)
    assert (len(bodies(found, at)), is_gone(found)) == ((0, True) if lost else (15, False))
    assert not lost or "is not in the log any more, which has it up to 15 " in str(found)
