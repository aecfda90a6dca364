"""Claims of a name on RocketMQ, one after the other, and what the last holder had on its way."""

from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.records.record import encode_body
from mq.contract import Append
from mq.errors import ClaimLost, NotDoneHere, PartitionUnknown, QueueUnavailable, RecordTooLarge
from mq.rocketmq import claim as module
from mq.rocketmq.claim import RocketmqClaim
from mq.rocketmq.journal import Journals
from mq.rocketmq.ownership import Ownership
from mq.rocketmq.parts import PartSender
from mq.rocketmq.rows import LaterRows
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.sink import RocketmqSink
from rocketmq.errors import Refused
from rocketmq.wire.bodies import Queue
from tests.unit.mq.rocketmq.scene import Answering, BrokerInMemory, Live, Requests, noted

BUFFER, AUDIT = Queue("ns%buffer%orders", "a", 0), Queue("ns%audit", "a", 0)


class Cluster(Answering):
    """Every queue of broker a and of broker b, but no queue 9."""

    def queue(self, topic: str, partition: str) -> Queue:
        broker, _, number = partition.partition(":")
        if number == "9":
            raise PartitionUnknown(partition)
        return Queue(topic.replace(".", "%"), broker, int(number))


def claim(broker: BrokerInMemory) -> RocketmqClaim:
    settings, clock, cluster = RocketmqSettings(name_servers="a:1", namespace="ns"), ManualClock(), Cluster()
    reader: Any = Requests(broker)

    def pinned(*_: Any) -> Any:
        requests = Requests(broker)
        return Live(SimpleNamespace(broker=requests, close=requests.close), requests)

    def rest(_: float) -> None:
        broker.land()

    admin = SimpleNamespace(create_group=noted, runtime=lambda _: {"bootTimestamp": "1"}, configuration=lambda _: {})
    client: Any = SimpleNamespace(admin=admin, pinned=pinned)
    journals = Journals(cluster, reader)  # type: ignore[arg-type]
    ownership = Ownership(settings, cluster, journals, reader, rest, noted, clock)  # type: ignore[arg-type]
    sender = PartSender(clock, rest, lambda: None)
    rows = LaterRows(settings, sender, clock)
    steps = RocketmqSink("", cluster, None, lambda _: None, clock, noted, lambda: None, sender, rows)  # type: ignore[arg-type]
    return RocketmqClaim(settings, "repair", ["a"], client, cluster, ownership, steps)  # type: ignore[arg-type]


def pair(name: bytes) -> list[Append]:
    """A re-append and its row."""
    body = encode_body(None, name)
    return [Append("ns.buffer.orders", "a:0", body), Append("ns.audit", "a:0", body)]


def stored(broker: BrokerInMemory) -> tuple[list[bytes], list[bytes]]:
    return broker.bodies(BUFFER), broker.bodies(AUDIT)


def test_a_name_that_is_held_is_refused_until_its_holder_lets_go() -> None:
    broker = BrokerInMemory()
    first = claim(broker)
    with pytest.raises(QueueUnavailable, match="'repair' is not claimed on a: another process has it"):
        claim(broker)
    first.append(pair(b"a"))
    first.close()
    second = claim(broker)
    second.append(pair(b"b"))
    second.close()
    assert stored(broker) == ([b"a", b"b"], [b"a", b"b"])


def test_who_has_claimed_the_name_finds_what_its_last_holder_had_begun_finished() -> None:
    broker = BrokerInMemory()
    first = claim(broker)
    broker.refusing = {AUDIT: Refused(1, "", "")}
    with pytest.raises(QueueUnavailable):
        first.append(pair(b"a"))
    with pytest.raises(QueueUnavailable, match="claim it again"):
        first.append(pair(b"b"))
    broker.refusing = {}
    assert stored(broker) == ([b"a"], [])
    claim(broker).close()
    assert stored(broker) == ([b"a"], [b"a"])


def test_what_lands_after_the_last_holders_end_is_not_written_twice() -> None:
    broker = BrokerInMemory()
    first = claim(broker)
    broker.held_up = {BUFFER}
    with pytest.raises(QueueUnavailable):
        first.append(pair(b"a"))
    broker.held_up = set()
    second = claim(broker)
    broker.land()
    second.close()
    assert stored(broker) == ([b"a"], [b"a"])


def test_a_holder_whose_connection_has_ended_stores_nothing_and_hears_who_has_the_name() -> None:
    broker = BrokerInMemory()
    first = claim(broker)
    first.sessions["a"].end()
    with pytest.raises(QueueUnavailable, match="the session with a has ended"):
        first.append(pair(b"a"))
    second = claim(broker)
    second.sessions["a"].end()
    third = claim(broker)
    with pytest.raises(ClaimLost):
        second.append(pair(b"a"))
    third.close()
    assert stored(broker) == ([], [])


def test_what_cannot_be_stored_in_one_step_is_refused_before_anything_is(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory()
    held = claim(broker)
    body = encode_body(None, b"x")
    with pytest.raises(PartitionUnknown):
        held.append([*pair(b"a"), Append("ns.audit", "a:9", body)])
    with pytest.raises(NotDoneHere, match="several brokers"):
        held.append([*pair(b"a"), Append("ns.audit", "b:0", body)])
    with pytest.raises(QueueUnavailable, match="b has come since"):
        held.append([Append("ns.audit", "b:0", body)])
    monkeypatch.setattr(module, "MEMBERS_BYTES_MAX", 10)
    with pytest.raises(RecordTooLarge):
        held.append(pair(b"a"))
    held.close()
    assert stored(broker) == ([], [])
