"""Batches for a transaction, made of bodies (`delayline.records.record`).

    record = varint length | 00 attributes | varint timestampDelta | varint offsetDelta | body

(Kafka's DefaultRecord, all varints zigzag). A batch's records are made here once; the producer's fields (id, epoch,
sequence) are set when they are sent, perhaps more than once.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from delayline.records.record import encode_varint
from kafkawire.batch.compression import compress
from kafkawire.batch.head import HEAD_BYTES, LENGTH_FROM, MAGIC, TRANSACTIONAL_BIT, Batch, Codec, Head
from kafkawire.protocol.primitives import Buffer

Delivery = tuple[bytes, int | None]
"""A body and its time (epoch ms); None is now."""

RECORD_OVERHEAD_BYTES_MAX = 26
"""Length and offset delta of five bytes each, a timestamp delta of ten, attributes; rounded up."""

SHORT = 8192
"""Bodies below it find their length in a table."""

_BODY_OF, _TIME_OF = itemgetter(0), itemgetter(1)
_NO_DELTA = b"\x00\x00"
_WIDTHS = ((0, 64, 1), (64, 8192, 2), (8192, 1 << 20, 3), (1 << 20, 1 << 27, 4))
"""Offset deltas from, to, and the bytes that each takes."""

_LENGTHS = {width: [encode_varint(size + 2 + width) for size in range(SHORT)] for *_, width in _WIDTHS}
_OFFSETS = [_NO_DELTA + encode_varint(delta) for delta in range(SHORT)]
"""Attributes, no timestamp delta, and the offset delta. It grows with the largest batch."""


class Records(NamedTuple):
    """The records of one batch; times in epoch ms. `payload` is compressed with `codec`."""

    payload: bytes
    record_count: int
    base_timestamp: int
    max_timestamp: int
    codec: Codec

    def batch(self, producer_id: int, producer_epoch: int, base_sequence: int) -> list[Buffer]:
        """A whole transactional batch, in two buffers."""
        head = Head(
            base_offset=0,
            length=HEAD_BYTES - LENGTH_FROM + len(self.payload),
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL_BIT | self.codec,
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
        )
        # `is_rebuilt`: there is no checksum yet that the payload could be compared with, so one is computed.
        return Batch(head, self.payload, is_rebuilt=True).encode(base_sequence)


def cut(deliveries: Sequence[Delivery], batch_bytes_max: int) -> list[Sequence[Delivery]]:
    """Runs that make batches of at most so many bytes before compression; a record that takes more stands alone, and
    brokers judge it."""
    room = batch_bytes_max - HEAD_BYTES
    # The sum is one pass in C, and nearly every call fits one batch: the loop below runs only for what does not.
    if sum(map(len, map(_BODY_OF, deliveries))) + RECORD_OVERHEAD_BYTES_MAX * len(deliveries) <= room:
        return [deliveries] if deliveries else []
    runs, start, left = [], 0, room
    for at, size in enumerate(map(len, map(_BODY_OF, deliveries))):
        left -= size + RECORD_OVERHEAD_BYTES_MAX
        # A record that is too large by itself still gets a batch: the broker refuses it with a code that names the
        # partition.
        if left < 0 and at > start:
            runs.append(deliveries[start:at])
            start, left = at, room - size - RECORD_OVERHEAD_BYTES_MAX
    return [*runs, deliveries[start:]]


def records_of(deliveries: Sequence[Delivery], now_ms: int, codec: Codec = Codec.NONE) -> Records:
    """At least one. Hot: once per record, 0.2 us where times are None and bodies short; everything in it is done by
    the interpreter's own loops."""
    bodies = list(map(_BODY_OF, deliveries))
    stamps = list(map(_TIME_OF, deliveries))
    if stamps.count(None) == len(stamps):
        plain, base, latest = b"".join(_stamped_now(bodies)), now_ms, now_ms
    else:
        times = [now_ms if stamp is None else stamp for stamp in stamps]
        base, latest = times[0], max(times)
        plain = b"".join(_stamped(bodies, [time - base for time in times]))
    payload = compress(codec, plain, b"")
    # Records that do not shrink are sent as they are: every reader would pay for decompressing them.
    if codec is Codec.NONE or len(payload) >= len(plain):
        return Records(plain, len(bodies), base, latest, Codec.NONE)
    return Records(payload, len(bodies), base, latest, codec)


def _stamped_now(bodies: Sequence[bytes]) -> Iterable[bytes]:
    """The records' parts, in order; the width of the offset delta is the same for long runs of them."""
    # Grown here and kept: the varint of an offset delta is the same in every batch.
    _OFFSETS.extend(_NO_DELTA + encode_varint(delta) for delta in range(len(_OFFSETS), len(bodies)))
    runs = (
        zip(_lengths(run, width), _OFFSETS[first:behind], run, strict=False)
        for first, behind, width in _WIDTHS
        if (run := bodies[first:behind])
    )
    return chain.from_iterable(chain.from_iterable(runs))


def _lengths(bodies: Sequence[bytes], width: int) -> Iterable[bytes]:
    sizes = list(map(len, bodies))
    # One long body sends the whole run the slow way; a check per record would cost the short ones more.
    if max(sizes) < SHORT:
        return map(_LENGTHS[width].__getitem__, sizes)
    return (encode_varint(size + 2 + width) for size in sizes)


def _stamped(bodies: Sequence[bytes], deltas: Sequence[int]) -> Iterable[bytes]:
    """Each with a time of its own: not as fast, because few topics ask for it."""
    # Few distinct times per batch: each varint is made once.
    stamps = {delta: b"\x00" + encode_varint(delta) for delta in set(deltas)}
    for offset, (body, delta) in enumerate(zip(bodies, deltas, strict=True)):
        behind = stamps[delta] + encode_varint(offset)
        yield encode_varint(len(behind) + len(body))
        yield behind
        yield body
