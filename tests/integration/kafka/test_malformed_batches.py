"""Batches that a broker stores and no client of ours would send, straight into a buffer topic: what waits before and
behind them is delivered, other shards are not touched, and nothing is claimed for it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from delayline.buffer.facts import fact_of
from delayline.buffer.outcome import decode_audit
from delayline.records.headers import DEAD_ERROR_CODE
from delayline.records.message import Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.client.address import parse_servers
from kafkawire.client.metadata import Nodes
from kafkawire.protocol.messages.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from kafkawire.security.access import read_access
from mq.contract import LogRecord
from mq.kafka.planned.buffer_ranges import read_buffer
from mq.kafka.settings import KafkaSettings
from tests.integration.kafka.conftest import CLOCK, Place, soon
from tests.integration.kafka.whole_worker import arrived, records, send, working
from tests.unit.mq.kafka.batches import COMPRESS, GZIP, ZSTD
from tests.unit.mq.kafka.logged import NOBODY, sealed, wire_record

PRODUCE_VERSION = 7
DELAY_MS = 1500
BOMB_BYTES = 130 << 20
"""More than is unpacked of one batch."""


@pytest.fixture
def nodes(place: Place) -> Iterator[Nodes]:
    servers = parse_servers(place.kafka.bootstrap_servers)
    with closing(Nodes(servers, read_access({}), "somebody", 10, CLOCK)) as found:
        yield found


def produce(nodes: Nodes, topic: str, batch: bytes) -> int:
    """Its offset in partition 0, from the broker's answer."""
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[ProduceTopic(topic, [ProducePartition(0, batch)])]
    )
    with closing(nodes.connect(nodes.leader(topic, 0))) as connection:
        answer = connection.ask(request, PRODUCE_VERSION, ProduceResponse, 30)
    (part,) = answer.responses[0].partition_responses
    assert part.error_code == 0, part
    return int(part.base_offset)


def delayed(number: int) -> bytes:
    return encode_body(None, b"%d" % number, [(b"delay-ms", b"%d" % DELAY_MS)])


def batch(deltas: list[int], first: int) -> bytes:
    rows = (wire_record(delta, delayed(first + at)) for at, delta in enumerate(deltas))
    return sealed(0, 0, len(deltas) - 1, NOBODY, len(deltas), b"".join(rows))


def bomb(codec: int) -> bytes:
    """One record of nothing, which is stored in a few kilobytes."""
    payload = COMPRESS[codec](wire_record(0, encode_body(None, bytes(BOMB_BYTES))))
    return sealed(0, codec, 0, NOBODY, 1, payload)


Account = Counter[tuple[int, int, str | None, int | None]]
"""By partition, offset, id and due time."""


def accepted(place: Place, queue: Any) -> Account:
    """What the reconcile job reads of the buffer."""
    settings = KafkaSettings(bootstrap_servers=place.kafka.bootstrap_servers, namespace=place.namespace)
    found: Account = Counter()
    for number in range(2):
        end = queue.offsets(place.buffer, str(number))[1]
        for chunk in read_buffer(settings, CLOCK, place.buffer, number, 0, end):
            for offset, at_ms, body in chunk:
                fact = fact_of(Shard(place.topic, str(number)), offset, at_ms, body, DEFAULT_RULES)
                found[number, offset, fact.id, fact.due_ms] += 1
    return found


def everything(place: Place, queue: Any, name: str) -> list[LogRecord]:
    """Of a topic of the installation."""
    topic = f"{place.namespace}.{name}"
    return records(place, queue, topic, len(queue.topic(topic).partitions))


def check_accounts(place: Place, queue: Any, account: Account) -> None:
    """Each of these records has one outcome row that calls it by the same name."""
    found: Account = Counter()
    for record in everything(place, queue, "audit"):
        audit, rows = decode_audit(decode_body(record.body).value or b"")
        found.update((int(audit.shard), row.offset, row.id, row.due_ms) for row in rows)
    places = {key[:2] for key in account}
    assert {key: count for key, count in found.items() if key[:2] in places} == account
    assert set(account.values()) == {1}


def test_records_that_name_other_places_are_delivered_and_so_is_what_waits_around_them(
    place: Place, nodes: Nodes
) -> None:
    place.make_topic(message_timestamp_type="LogAppendTime")
    queue = place.queue()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    send(place, queue, range(2), DELAY_MS)
    number = 2
    for deltas in ([77], [-1], [0, 0], [1, 0]):
        produce(nodes, place.buffer, batch(deltas, number))
        number += len(deltas)
    send(place, queue, range(number, number + 2), DELAY_MS)
    account = accepted(place, queue)
    with working(place, queue) as worker:
        assert arrived(place, queue, number + 2) == list(range(number + 2))
        assert [status.stalled for status in worker.statuses] == [None, None]
        assert {status.owner_epoch for status in worker.statuses} == {1}
    with working(place, queue) as worker:  # an index made anew, of the same log
        soon(lambda: worker.ready and len(worker.statuses) == 2)
        send(place, queue, range(number + 2, number + 4), 1)
        assert arrived(place, queue, number + 4) == list(range(number + 4))
    assert everything(place, queue, "dead") == []
    check_accounts(place, queue, account)


def test_a_batch_that_unpacks_to_more_than_anything_should_is_a_dead_letter(place: Place, nodes: Nodes) -> None:
    place.make_topic(message_timestamp_type="LogAppendTime")
    queue = place.queue()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    send(place, queue, range(2), DELAY_MS)
    offset = produce(nodes, place.buffer, bomb(ZSTD))
    produce(nodes, place.buffer, bomb(GZIP))
    send(place, queue, range(2, 4), DELAY_MS)
    account = accepted(place, queue)
    with working(place, queue) as worker:
        assert arrived(place, queue, 4) == list(range(4))
        dead = soon(lambda: found if len(found := everything(place, queue, "dead")) == 2 else None)
        assert [status.stalled for status in worker.statuses] == [None, None]
    check_accounts(place, queue, account)
    letters = [decode_body(record.body) for record in dead]
    assert {dict(letter.headers)[DEAD_ERROR_CODE] for letter in letters} == {b"malformed-batch"}
    first = min(letters, key=lambda letter: int(dict(letter.headers)[b"delayline-offset"] or b""))
    assert (dict(first.headers)[b"delayline-offset"], len(first.value or b"") > 61) == (b"%d" % offset, True)
