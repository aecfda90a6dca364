"""Reading a planned part of a buffer as the worker that owns it does: record for record the same.

librdkafka does not agree about what a broker stores and no client of ours would send
(`delayline.records.set_aside`). The accounts of what a worker has read are therefore read by the worker's path.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing

from delayline.clock import Clock
from kafkawire.client.reader import WireReader
from kafkawire.client.reading import At, Gone, Part, Read, Spoilt
from mq.contract import LogRecord
from mq.errors import OffsetOutOfRange, QueueUnavailable
from mq.kafka.data_path.spoken import direct
from mq.kafka.settings import KafkaSettings

CHUNK = 2000
WAIT_S = 0.1


def read_buffer(
    settings: KafkaSettings, clock: Clock, topic: str, partition: int, start: int, end: int
) -> Iterator[Sequence[LogRecord]]:
    """The committed records with offsets in `[start, end)`, in chunks. Raises OffsetOutOfRange where the log does not
    hold `start` any more, or does not reach to `end` within the patience of a request; QueueUnavailable where nothing
    answers, or a batch cannot be read."""
    nodes = direct(settings, f"{settings.namespace}-beside", clock).nodes
    if start >= end:
        return
    with closing(nodes), closing(WireReader(nodes, settings.request_timeout_s, clock)) as reader:
        reader.assign(At(topic, partition), start)
        yield from _chunks(reader, settings, clock, f"{topic}, partition {partition}", end)


def _chunks(
    reader: WireReader, settings: KafkaSettings, clock: Clock, what: str, end: int
) -> Iterator[Sequence[LogRecord]]:
    position, give_up_s = -1, clock.monotonic_s() + settings.request_timeout_s
    while position < end:
        for found in reader.read(CHUNK, WAIT_S):
            if position >= end:
                return  # what stands behind need not be readable
            position, records = _part(found, what)
            give_up_s = clock.monotonic_s() + settings.request_timeout_s
            if wanted := [LogRecord(*record) for record in records if record[0] < end]:
                yield wanted
        if position < end and clock.monotonic_s() > give_up_s:
            if position < 0:
                raise QueueUnavailable(f"reading {what}: no answer")
            raise OffsetOutOfRange(f"{what}: it ends at {position}, before {end}")


def _part(found: Read, what: str) -> tuple[int, Sequence[tuple[int, int, bytes]]]:
    match found:
        case Part(_, records, next_offset):
            return next_offset, records
        case Gone(_, detail):
            raise OffsetOutOfRange(f"{what}: {detail}")
        case Spoilt(_, detail):
            raise QueueUnavailable(f"reading {what}: {detail}")
