"""What the Kafka proxy's codecs cost a record: the search for directives, the walk, the split, per compression.

A batch of 100 records of 1 KiB and three headers, uncompressed or compressed, of which 10 % carry `delay-ms`, and
the same without any. Each step is timed over many batches, several rounds; the fastest round counts.
"""

import random
from collections.abc import Callable
from functools import partial

from bench.report import Report, measured
from delayline.records.record import encode_body, encode_varint
from kafkawire.batch.compression import compress
from kafkawire.batch.head import HEAD_BYTES, MAGIC, Batch, Codec, Head, read_batch
from kafkawire.batch.walk import walk
from kafkawire.client.address import Address
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.metadata import MetadataBroker, MetadataPartition, MetadataResponse, MetadataTopic
from kafkawire.protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from proxy.kafka.produce.scan import Scan, scan_batch
from proxy.kafka.produce.screen import directives_of
from proxy.kafka.view.rewrite import Hidden, View, rewrite_response

RECORDS = 100
VALUE_BYTES = 1024
BATCHES = 200
ROUNDS = 5
_T0 = 1_767_225_600_000
_DIRECTIVES = directives_of(())
_XERIAL = b"\x82SNAPPY\x00"
_WORDS = b"order customer amount currency delivered shipped cancelled address street city".split()


def run(scale: float) -> Report:
    """About ten seconds."""
    report = Report("Kafka proxy: CPU of its codecs")
    batches = max(int(BATCHES * scale), 5)
    for name, step in _batch_steps().items():
        report.add(name, min(_cost_us(step, batches) for _ in range(ROUNDS)) / RECORDS, "us/record")
    for name, step in _message_steps().items():
        report.add(name, min(_cost_us(step, batches) for _ in range(ROUNDS)), "us")
    report.notes.append(f"batches of {RECORDS} records of {VALUE_BYTES} bytes; the fastest of {ROUNDS} rounds")
    return report


def _cost_us(step: Callable[[], object], times: int) -> float:
    with measured() as lap:
        for _ in range(times):
            step()
    return lap.cpu_s / times * 1e6


def _batch_steps() -> dict[str, Callable[[], object]]:
    none, some = _batch(delayed=0), _batch(delayed=10)
    plain = bytes(read_batch(some).payload)
    steps: dict[str, Callable[[], object]] = {
        "read head": partial(read_batch, some),
        "check, and give another sequence": lambda: read_batch(none).encode(7),
        "walk": partial(walk, plain, RECORDS),
        "scan, no directive": partial(_scan, none),
        "scan, 10 % delayed": partial(_scan, some),
        "split, 10 % delayed": partial(_split, some),
        "split, 50 % delayed": partial(_split, _batch(delayed=50)),
    }
    for codec in list(Codec)[1:]:
        name = codec.name.lower()
        steps[f"scan, no directive, {name}"] = partial(_scan, _batch(0, codec))
        steps[f"split, 10 % delayed, {name}"] = partial(_split, _batch(10, codec))
    return steps


def _scan(data: bytes) -> Scan:
    return scan_batch(read_batch(data), _DIRECTIVES)


def _split(data: bytes) -> None:
    """From the bytes of a partition to the bytes for target and buffer."""
    scan = _scan(data)
    parts = scan.split({one.place for one in scan.found})
    assert parts.immediate is not None, "not all records are delayed"
    assert parts.delayed is not None, "some records are delayed"
    parts.immediate.encode(7)
    parts.delayed.encode(1)


def _batch(delayed: int, codec: Codec = Codec.NONE) -> bytes:
    """Delayed records are spread evenly."""
    dice = random.Random(1)
    places = {n * RECORDS // delayed for n in range(delayed)}
    records = b"".join(_record(dice, n, n in places) for n in range(RECORDS))
    payload = compress(codec, records, _XERIAL)
    head = Head(0, 49 + len(payload), -1, MAGIC, 0, codec, RECORDS - 1, _T0, _T0 + RECORDS, 7, 0, 0, RECORDS)
    data = b"".join(Batch(head, payload, is_rebuilt=True).encode(0))
    assert len(data) == HEAD_BYTES + len(payload), "a whole batch"
    return data


def _record(dice: random.Random, n: int, is_delayed: bool) -> bytes:
    value = b" ".join(dice.choices(_WORDS, k=200))[:VALUE_BYTES]
    third = (b"delay-ms", b"30000") if is_delayed else (b"lane", b"fast")
    body = encode_body(b"%08d" % n, value, [(b"src", b"web"), third, (b"trace", dice.randbytes(27).hex().encode())])
    record = b"\x00" + encode_varint(n) + encode_varint(n) + body
    return encode_varint(len(record)) + record


def _message_steps() -> dict[str, Callable[[], object]]:
    produce = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceTopic("orders", [ProducePartition(n, bytes(16_384)) for n in range(6)])],
    )
    body = b"".join(encode(produce, 12))
    metadata = memoryview(b"".join(encode(_metadata(), 12)))
    view = View(lambda node, _: Address("127.0.0.1", 9093 + node), Hidden(lambda name: name.startswith("b."), b"b."))
    return {
        "decode Produce, 6 partitions": lambda: decode(ProduceRequest, 12, body),
        "encode Produce, 6 partitions": lambda: encode(produce, 12),
        f"rewrite Metadata, 2,000 topics, {len(metadata) // 1024} kB": lambda: rewrite_response(
            ApiKey.METADATA, 12, metadata, view
        ),
    }


def _metadata() -> MetadataResponse:
    partitions = [MetadataPartition(0, n, n % 3, 1, [0, 1, 2], [0, 1, 2]) for n in range(6)]
    names = [f"topic-{n}" if n % 20 else f"b.topic-{n}" for n in range(2000)]
    return MetadataResponse(
        brokers=[MetadataBroker(n, f"broker-{n}.example", 9092) for n in range(3)],
        topics=[MetadataTopic(name=name, topic_id=bytes(16), partitions=partitions) for name in names],
    )
