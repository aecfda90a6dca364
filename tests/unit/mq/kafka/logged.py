"""Logs as a broker keeps them, written by another hand than the one that reads them: batches at their offsets, with
gaps, markers and what was aborted."""

import random
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

import google_crc32c

from delayline.records.record import encode_body, encode_varint
from tests.unit.mq.kafka.batches import COMPRESS, NONE, SNAPPY, SNAPPY_XERIAL, T0

APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
NOBODY = -1
EPOCH_AT = 12
COMMIT, ABORT = 1, 0


def wire_record(delta: int, body: bytes, after_ms: int = 0) -> bytes:
    record = b"\x00" + encode_varint(after_ms) + encode_varint(delta) + body
    return encode_varint(len(record)) + record


def batch(
    base: int,
    bodies: "list[bytes] | dict[int, bytes]",
    *,
    attributes: int = APPEND_TIME,
    codec: int = NONE,
    producer: int = NOBODY,
    after_ms: "list[int] | None" = None,
    last_delta: int | None = None,
) -> bytes:
    """A batch with the records `bodies`, by offset delta where there are gaps; `after_ms` are their times from T0 on,
    which is also the time of appending."""
    by_delta = bodies if isinstance(bodies, dict) else dict(enumerate(bodies))
    times = after_ms or [0] * len(by_delta)
    rows = zip(by_delta.items(), times, strict=True)
    payload = b"".join(wire_record(delta, body, time) for (delta, body), time in rows)
    bits = attributes | (SNAPPY if codec == SNAPPY_XERIAL else codec)
    last = max(by_delta, default=0) if last_delta is None else last_delta
    return sealed(base, bits, last, producer, len(by_delta), COMPRESS[codec](payload) if payload else payload)


def sealed(base: int, attributes: int, last_delta: int, producer: int, count: int, payload: bytes) -> bytes:
    """Head and payload, with the length and the checksum that fit."""
    checked = struct.pack(">hiqqqhii", attributes, last_delta, T0, T0, producer, 0, -1, count) + payload
    return struct.pack(">qiibI", base, 9 + len(checked), 0, 2, google_crc32c.value(checked)) + checked


def marker(base: int, producer: int, kind: int) -> bytes:
    body = encode_body(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return batch(base, [body], attributes=TRANSACTIONAL | CONTROL, producer=producer)


class Aborted(NamedTuple):
    producer: int
    first_offset: int
    last_offset: int


@dataclass
class Log:
    """A partition's log. What producers write between `begin` of nothing and their marker is a transaction."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # first offset, last offset, bytes
    committed: list[tuple[int, bytes]] = field(default_factory=list)
    aborted: list[Aborted] = field(default_factory=list)
    _open: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    end: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # each leader's, and where it began

    @property
    def stable_end(self) -> int:
        return min((records[0][0] for records in self._open.values()), default=self.end)

    def append(self, bodies: list[bytes], producer: int = NOBODY, codec: int = NONE, gap: int = 0) -> None:
        """`gap` offsets of the batch have been compacted away behind its first record."""
        deltas = [0, *range(1 + gap, len(bodies) + gap)]
        records = [(self.end + delta, body) for delta, body in zip(deltas, bodies, strict=True)]
        bits = APPEND_TIME | (TRANSACTIONAL if producer != NOBODY else 0)
        data = batch(
            self.end, dict(zip(deltas, bodies, strict=True)), attributes=bits, codec=codec, producer=producer
        )
        self._add(data, deltas[-1])
        if producer == NOBODY:
            self.committed += records
        else:
            self._open.setdefault(producer, []).extend(records)

    def end_transaction(self, producer: int, kind: int) -> None:
        records = self._open.pop(producer, None)
        if records is None:
            return
        if kind == COMMIT:
            self.committed = sorted(self.committed + records)
        else:
            self.aborted.append(Aborted(producer, records[0][0], self.end))
        self._add(marker(self.end, producer, kind), 0)

    def _add(self, data: bytes, last_delta: int) -> None:
        led = data[:EPOCH_AT] + struct.pack(">i", self.epochs[-1][0]) + data[EPOCH_AT + 4 :]
        self.batches.append((self.end, self.end + last_delta, led))
        self.end += last_delta + 1

    def elect(self) -> None:
        """Another leader, or the same one anew."""
        epoch = self.epochs[-1][0]
        self.epochs = [row for row in self.epochs if row[1] < self.end] + [(epoch + 1, self.end)]

    def lose(self, batches: int) -> None:
        """The last so many, which nobody had a copy of; none of them is part of a transaction."""
        self.end = self.batches[-batches][0]
        del self.batches[-batches:]
        self.committed = [row for row in self.committed if row[0] < self.end]
        self.elect()

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to this one and the offset behind it, as brokers answer it (LeaderEpochFileCache)."""
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        behind = [start for number, start in self.epochs if number > epoch]
        known = [number for number, _ in self.epochs if number <= epoch]
        return (max(known, default=epoch), min(behind)) if behind else (-1, -1)

    def readable(self) -> list[tuple[int, bytes]]:
        return [record for record in self.committed if record[0] < self.stable_end]

    def fetch(self, offset: int, bytes_max: int) -> tuple[bytes, list[tuple[int, int]]]:
        """The records field and the aborted transactions that a broker would answer with (read_committed)."""
        stable = self.stable_end
        held = [row for row in self.batches if row[1] >= offset and row[1] < stable]
        data = b"".join(row[2] for row in held)[:bytes_max]
        upper = held[-1][1] if held else offset
        return data, [(one.producer, one.first_offset) for one in self.aborted if _touches(one, offset, upper)]


def _touches(one: Aborted, offset: int, upper: int) -> bool:
    return one.last_offset >= offset and one.first_offset <= upper


def random_log(dice: random.Random, steps: int) -> Log:
    """Producers with and without transactions, interleaved."""
    log = Log()
    for number in range(steps):
        producer = dice.choice([NOBODY, 1, 2, 3])
        if dice.randrange(10) == 0:
            log.elect()
        match dice.randrange(6):
            case 0 | 1 | 2 | 3:
                bodies = [
                    encode_body(b"%d" % number, b"v" * dice.randrange(300)) for _ in range(dice.randrange(1, 9))
                ]
                log.append(bodies, producer, dice.choice([NONE, *COMPRESS]), dice.choice([0, 0, 0, 5]))
            case 4:
                log.end_transaction(producer, COMMIT)
            case 5:
                log.end_transaction(producer, ABORT)
    return log
