"""What single steps cost a record: the floor under every pipeline built from them.

The record is the one that the documents speak of: an 8-byte key, a 256-byte value and three headers, one of which is
the directive. Each step is timed over many records, several rounds, and the fastest round counts: the others met
somebody else's work.
"""

import random
from collections.abc import Callable

from bench.report import Report, measured
from bench.steps.dispatching import COMMIT, SMALL_COMMIT, dispatch_steps
from bench.steps.ingesting import POLLED, ingest_steps
from delayline.buffer.outcome import AuditRow, Outcome, decode_audit, encode_audit
from delayline.buffer.record import decode_value, encode_value
from delayline.records.message import Shard
from delayline.records.record import accepted_at_ms_of, decode_body, encode_body, pack, seal, split_directives
from kafkawire.batch.build import records_of
from kafkawire.batch.head import APPEND_TIME_BIT, CHECKED_AT, RECORDS_AT, Head, head_at
from kafkawire.batch.records import read_records
from store.counts import MinuteCounts, SegmentCounts

RECORDS = 50_000
ROUNDS = 5
AT_ONCE = 1000
_T0 = 1_767_225_600_000
_NAMES = frozenset({b"delay-ms", b"delay", b"deliver-at", b"delay-level"})
_SHARD = Shard("orders", "0")


def run(scale: float) -> Report:
    """A few seconds."""
    report = Report("Floors: CPU per record")
    records = max(int(RECORDS * scale), AT_ONCE)
    for name, step in (_steps(records) | ingest_steps(records) | dispatch_steps(records)).items():
        report.add(name, min(_cost_us(step, records) for _ in range(ROUNDS)), "us/record")
    report.notes.append(f"{records:,} records a round, the fastest of {ROUNDS} rounds, loop included")
    report.notes.append(f"ingest: {POLLED:,} records at once, indexes opened and closed included")
    report.notes.append(f"dispatch: plain messages, {COMMIT:,} in a commit, or {SMALL_COMMIT} where it is small")
    return report


def _cost_us(step: Callable[[], object], records: int) -> float:
    with measured() as lap:
        step()
    return lap.cpu_s / records * 1e6


def _steps(records: int) -> dict[str, Callable[[], object]]:
    dice = random.Random(1)
    headers = [(b"src", b"web"), (b"delay-ms", b"30000"), (b"trace", b"x" * 55)]
    bodies = [encode_body(b"%08d" % n, dice.randbytes(256), headers) for n in range(records)]
    splits = [split_directives(body, _NAMES) for body in bodies]
    packed = [pack(split, _T0) for split in splits]
    values = [encode_value(None, one) for one in packed]
    rows = [AuditRow(n, f"orders.0.{n}.{_T0}", _T0, _T0, Outcome.DELIVERED) for n in range(records)]
    audit = [decode_body(body).value or b"" for body in encode_audit(_SHARD, 1, _T0, rows)]
    near_ms = [_T0 + dice.randrange(2000) for _ in range(records)]
    deliveries = [(seal(one, b"orders.0.1.1767225600000", _T0), None) for one in packed]
    runs = [deliveries[at : at + AT_ONCE] for at in range(0, records, AT_ONCE)]
    logs = [_logged(bodies[at : at + AT_ONCE]) for at in range(0, records, AT_ONCE)]
    far_ms = [_T0 + dice.randrange(30 * 86_400_000) for _ in range(records)]
    return {
        "encode_body": lambda: [encode_body(b"12345678", b"x" * 256, headers) for _ in bodies],
        "decode_body": lambda: [decode_body(body) for body in bodies],
        "split_directives": lambda: [split_directives(body, _NAMES) for body in bodies],
        "pack": lambda: [pack(split, _T0) for split in splits],
        "encode_value, plain": lambda: [encode_value(None, one) for one in packed],
        "decode_value, plain": lambda: [decode_value(value) for value in values],
        "accepted_at_ms_of": lambda: [accepted_at_ms_of(one) for one in packed],
        "seal": lambda: [seal(one, b"orders.0.1.1767225600000", _T0) for one in packed],
        "records_of, batches of 1,000": lambda: [records_of(run, _T0).batch(1, 2, 3) for run in runs],
        "AuditRow": lambda: [AuditRow(n, "id", _T0, _T0, Outcome.DELIVERED) for n in range(records)],
        "encode_audit": lambda: list(encode_audit(_SHARD, 1, _T0, rows)),
        "decode_audit": lambda: [decode_audit(value) for value in audit],
        "records out of fetched batches": lambda: [read_records(head, log, RECORDS_AT) for head, log in logs],
        "count per offset segment": lambda: _count(SegmentCounts(), list(range(records))),
        "count per due minute, 2 s ahead": lambda: _count(MinuteCounts(), near_ms),
        "count per due minute, 30 days ahead": lambda: _count(MinuteCounts(), far_ms),
    }


def _logged(bodies: list[bytes]) -> tuple[Head, bytes]:
    """A batch as a broker with append times hands it out: its head, and what its checksum covers."""
    made = records_of([(body, None) for body in bodies], _T0).batch(-1, -1, -1)
    head = head_at(b"".join(made), 0)
    append_time = head._replace(attributes=APPEND_TIME_BIT)
    return append_time, b"".join(made)[CHECKED_AT:]


def _count(counts: SegmentCounts | MinuteCounts, numbers: list[int]) -> None:
    for at in range(0, len(numbers), AT_ONCE):
        counts.add(numbers[at : at + AT_ONCE])
