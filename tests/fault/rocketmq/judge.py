"""What a run came to: what senders know against what the brokers have, by their own stamps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from delayline.records.record import decode_body
from mq.rocketmq.body import to_body
from mq.rocketmq.journal import Claimed, decode, is_record
from rocketmq.client.client import Client
from rocketmq.errors import Unreachable
from rocketmq.wire.bodies import Queue
from rocketmq.wire.stored import StoredMessage
from tests.simulation import facts


@dataclass
class Sent:
    """Tags that were acknowledged, and those whose fate the sender never learned."""

    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Delivered:
    """A message in a queue of the target. `offset` is that of its record in the shard's buffer."""

    tag: str
    stored_ms: int
    due_ms: int
    shard: str = ""
    offset: int = 0


@dataclass(frozen=True)
class Row:
    """An outcome of the record at `offset` of a shard's buffer."""

    shard: str
    offset: int
    outcome: str


@dataclass
class Verdict:
    """What is wrong, by what it is about."""

    lost: list[str]
    twice: list[str]
    early: list[str]
    strange: list[str]
    passed: list[str]
    without_row: list[str]

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, one.name) for one in fields(self))


@dataclass
class Evidence:
    """All there is in the end. `claims` are takeovers that a journal has."""

    sent: Sent
    delivered: list[Delivered]
    rows: list[Row] = field(default_factory=list)
    claims: int = 0

    @property
    def latest_ms(self) -> int:
        """From due to the broker's stamp, at most."""
        return max((one.stored_ms - one.due_ms for one in self.delivered), default=0)


def judge(evidence: Evidence) -> Verdict:
    """What was acknowledged is there once, what was of unknown fate at most once, nothing else is. Nothing is early,
    none passes another that is due sooner and was accepted before it, and each has one outcome."""
    sent, delivered = evidence.sent, evidence.delivered
    counts = Counter(one.tag for one in delivered)
    rows = Counter((row.shard, row.offset) for row in evidence.rows)
    return Verdict(
        lost=sorted(sent.acknowledged - counts.keys()),
        twice=sorted(tag for tag, count in counts.items() if count > 1),
        early=sorted(one.tag for one in delivered if one.stored_ms < one.due_ms),
        strange=sorted(counts.keys() - sent.acknowledged - sent.unknown),
        passed=[tag for shard in {one.shard for one in delivered} for tag in _passed(delivered, shard)],
        without_row=sorted(one.tag for one in delivered if rows[one.shard, one.offset] != 1),
    )


def _passed(delivered: Sequence[Delivered], shard: str) -> Iterator[str]:
    """Those before which one of a later due time and a greater offset stands. In a Fenwick tree by descending offset
    is the latest due time of what stands before."""
    run = [one for one in delivered if one.shard == shard]
    places = {offset: place for place, offset in enumerate(sorted({one.offset for one in run}, reverse=True), 1)}
    latest = [0] * (len(places) + 1)
    for one in run:
        place = at = places[one.offset]
        found = 0
        at -= 1
        while at:
            found, at = max(found, latest[at]), at & (at - 1)
        if found > one.due_ms:
            yield one.tag
        while place < len(latest):
            latest[place], place = max(latest[place], one.due_ms), place + (place & -place)


# --- what the brokers have


def gather(client: Client, brokers: Sequence[str], topic: str, namespace: str, sent: Sent) -> Evidence:
    """Everything of a topic and its shards."""
    evidence = Evidence(sent, list(delivered_into(client, brokers, topic)))
    evidence.rows = list(rows_of(client, brokers, topic, namespace))
    journals = messages(client, brokers, f"{namespace}%cursor%{topic}")
    records = [decode(one.body) for one in journals if is_record(one.body)]
    evidence.claims = len({(one.term, one.session) for one in records if isinstance(one, Claimed)})
    return evidence


def rows_of(client: Client, brokers: Sequence[str], topic: str, namespace: str) -> Iterator[Row]:
    """Outcomes of a topic's messages."""
    for message in messages(client, brokers, f"{namespace}%audit"):
        body = to_body(message)
        value: dict[str, Any] = msgspec.json.decode(decode_body(body).value or b"{}")
        if value.get("topic") == topic:
            yield from (Row(value["shard"], row["off"], row["out"]) for row in facts.rows(body))


def delivered_into(client: Client, brokers: Sequence[str], topic: str) -> Iterator[Delivered]:
    """All of the topic must be Delayline's."""
    return map(delivered, messages(client, brokers, topic))


def delivered(message: StoredMessage) -> Delivered:
    """One of Delayline's, by its properties."""
    found = message.properties_map()
    shard, offset, due_ms = found["delayline-id"].removeprefix(f"{message.topic}.").rsplit(".", 2)
    assert int(due_ms) == int(found["delayline-due"])
    return Delivered(message.body.decode(), message.stored_ms, int(due_ms), shard, int(offset))


def messages(client: Client, brokers: Sequence[str], topic: str) -> Iterator[StoredMessage]:
    """Of all queues on these brokers. Raises RocketmqError; Unreachable where the route lacks one."""
    client.names.forget(topic)
    route = client.names.route(topic)
    if missing := set(brokers) - {one.broker for one in route.queues}:
        raise Unreachable(f"the route of {topic} lacks {', '.join(sorted(missing))}")
    for one in (one for one in route.queues if one.broker in brokers):
        for number in range(one.readable):
            queue, offset = Queue(topic, one.broker, number), 0
            while found := client.broker.pull(queue, offset).messages:
                yield from found
                offset = found[-1].queue_offset + 1
