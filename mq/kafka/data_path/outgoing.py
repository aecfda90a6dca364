"""What a transaction writes, cut into batches."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkawire.batch.build import Delivery, Records, cut, records_of
from kafkawire.batch.head import Codec
from kafkawire.client.steps import Place, Write
from mq.kafka.admin.limits import Limits
from mq.kafka.data_path.sends import Bulk, Delivered, Send

MESSAGE_BYTES_MAX = 16 << 20
"""Of records in one Produce; brokers cut connections that bring more than `socket.request.max.bytes`, 100 MB."""


class OutgoingBatch(NamedTuple):
    """One batch on its way to a partition. `heard` are those who asked where a record stands: its place in the batch,
    its time (epoch ms), and whom to notify."""

    place: Place
    records: Records
    heard: Sequence[tuple[int, int, Delivered]]


Heard = Sequence[tuple[int, int, Delivered]]


def batches_of(sends: Iterable[Send | Bulk], now_ms: int, limits: Limits, codec: Codec) -> list[OutgoingBatch]:
    """In the order of `sends` for each partition."""
    deliveries: dict[Place, list[Delivery]] = {}
    heard: dict[Place, list[tuple[int, int, Delivered]]] = {}
    for send in sends:
        place = send.topic, send.partition
        if isinstance(send, Bulk):
            if send.deliveries:
                deliveries.setdefault(place, []).extend(send.deliveries)
            continue
        before = deliveries.setdefault(place, [])
        if send.delivered is not None:
            stamp = now_ms if send.timestamp_ms is None else send.timestamp_ms
            heard.setdefault(place, []).append((len(before), stamp, send.delivered))
        before.append((send.body, send.timestamp_ms))
    return [
        OutgoingBatch(place, records_of(run, now_ms, codec), listening)
        for place, held in deliveries.items()
        for run, listening in _cut(held, heard.get(place, ()), limits, place[0])
    ]


def _cut(
    deliveries: list[Delivery], heard: Heard, limits: Limits, topic: str
) -> Iterable[tuple[Sequence[Delivery], Heard]]:
    first = 0
    for run in [deliveries] if len(deliveries) == 1 else cut(deliveries, limits.of(topic)):
        behind = first + len(run)
        yield run, [(at - first, stamp, notify) for at, stamp, notify in heard if first <= at < behind]
        first = behind


def rounds_of(writes: Iterable[Write], batches: Sequence[OutgoingBatch]) -> list[list[Write]]:
    """Messages, in order: with one batch of a partition each, for brokers refuse two, and not too long."""
    rounds: list[list[Write]] = []
    sizes: list[int] = []
    behind: dict[Place, int] = {}  # the first round that comes after the partition's last batch
    for write in writes:
        size = len(batches[write.number].records.payload)
        at = behind.get(write.place, 0)
        while at < len(rounds) and sizes[at] + size > MESSAGE_BYTES_MAX:
            at += 1
        if at == len(rounds):
            rounds.append([])
            sizes.append(0)
        rounds[at].append(write)
        sizes[at] += size
        behind[write.place] = at + 1
    return rounds
