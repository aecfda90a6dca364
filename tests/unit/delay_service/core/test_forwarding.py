"""Operations that reach another partition than their message's."""

import pytest

from delay_service.core.forwarding import encode_forwarded, forward
from delayline.buffer.outcome import FORWARDED, AuditRow, Outcome, decode_audit
from delayline.buffer.record import Operation, read
from delayline.records.headers import FORWARDED as FORWARDED_HEADER
from delayline.records.message import Header, MessageId, Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, DispatchBatch
from mq.errors import CommitAborted, CommitUnknown
from tests.unit.delay_service.harness import NAMES, Bench

BUFFER = NAMES.buffer("orders")
PARTITIONS = ("0", "1", "2", "3")
HERE, THERE = "1", "3"


@pytest.fixture
def bench() -> Bench:
    return Bench(partitions=4)


def append(bench: Bench, partition: str, *headers: Header, value: bytes | None = None) -> None:
    bench.queue.append([Append(BUFFER, partition, encode_body(b"k", value, headers))]).result()


def message(bench: Bench, partition: str = THERE, delay_ms: int = 60_000) -> MessageId:
    """One that waits; its id."""
    append(bench, partition, (b"delay-ms", b"%d" % delay_ms), value=b"m")
    bench.turn()
    offset = bench.queue.offsets(BUFFER, partition)[1] - 1
    return MessageId(Shard("orders", partition), offset, bench.clock.now_ms() + delay_ms)


def cancel(bench: Bench, ref: MessageId, partition: str = HERE, *headers: Header) -> None:
    append(bench, partition, (b"delay-op", b"cancel"), (b"delay-ref", str(ref).encode()), *headers)
    bench.turn(8)


def outcomes(bench: Bench) -> list[tuple[str, Outcome, str]]:
    """Partition, outcome and reason of every row, in the order of the audit's partitions."""
    found: list[tuple[str, AuditRow]] = []
    for partition in PARTITIONS:
        for record in bench.queue.read(NAMES.audit, partition, 0, 1000):
            head, rows = decode_audit(decode_body(record.body).value or b"")
            found += [(head.shard, row) for row in rows]
    return sorted((shard, row.outcome, row.reason or "") for shard, row in found)


def delivered(bench: Bench) -> list[bytes | None]:
    return [decode_body(r.body).value for part in PARTITIONS for r in bench.queue.read("orders", part, 0, 100)]


# --- the way to the right shard


def test_a_cancel_in_another_partition_reaches_its_message(bench: Bench) -> None:
    ref = message(bench)
    cancel(bench, ref)
    bench.clock.advance(120_000)
    bench.turn()
    assert delivered(bench) == []
    assert outcomes(bench) == [
        (HERE, Outcome.APPLIED, FORWARDED),
        (THERE, Outcome.APPLIED, ""),  # the decision that names the message
        (THERE, Outcome.APPLIED, "cancelled"),
        (THERE, Outcome.CANCELLED, "cancelled"),
    ]


def test_a_reschedule_counts_from_where_it_was_sent_first(bench: Bench) -> None:
    ref = message(bench)
    sent_ms = bench.clock.now_ms()
    bench.sink.fault = lambda batch: CommitAborted("not now") if any(part.cross_partition for part in batch) else None
    append(bench, HERE, (b"delay-op", b"reschedule"), (b"delay-ref", str(ref).encode()), (b"delay", b"10s"))
    bench.turn()
    bench.clock.advance(7000)
    bench.sink.fault = lambda _: None
    bench.turn(8)
    bench.clock.advance(2999)
    bench.turn()
    before = delivered(bench)
    bench.clock.advance(1)
    bench.turn()
    assert bench.clock.now_ms() == sent_ms + 10_000
    assert (before, delivered(bench)) == ([], [b"m"])


def test_a_message_that_is_not_there_is_no_match_where_it_would_be(bench: Bench) -> None:
    cancel(bench, MessageId(Shard("orders", THERE), 7, bench.clock.now_ms()))
    assert outcomes(bench) == [(HERE, Outcome.APPLIED, FORWARDED), (THERE, Outcome.UNMATCHED, "not-pending")]


def test_operations_keep_their_order_on_the_way(bench: Bench) -> None:
    first, second = message(bench), message(bench)
    for ref in (first, second, first):
        append(bench, HERE, (b"delay-op", b"cancel"), (b"delay-ref", str(ref).encode()))
    bench.turn(8)
    refs = [
        dict(decode_body(record.body).headers)[b"delay-ref"]
        for record in bench.queue.read(BUFFER, THERE, 0, 100)
        if FORWARDED_HEADER in record.body
    ]
    assert refs == [str(ref).encode() for ref in (first, second, first)]


# --- once


@pytest.mark.parametrize(
    ("error", "written"),
    [(CommitAborted("it was not"), False), (CommitUnknown("it was not"), False), (CommitUnknown("it was"), True)],
)
def test_an_operation_is_forwarded_once_whatever_becomes_of_the_commit(
    bench: Bench, error: Exception, written: bool
) -> None:
    ref = message(bench)
    errors = iter([error])

    def once(batch: DispatchBatch) -> Exception | None:
        return next(errors, None) if any(part.cross_partition for part in batch) else None

    if written:
        bench.sink.after = once
    else:
        bench.sink.fault = once
    cancel(bench, ref)
    bench.clock.advance(2000)
    bench.turn(8)
    forwarded = [r for r in bench.queue.read(BUFFER, THERE, 0, 100) if FORWARDED_HEADER in r.body]
    assert len(forwarded) == 1
    assert (THERE, Outcome.CANCELLED, "cancelled") in outcomes(bench)


def test_what_was_forwarded_to_the_wrong_shard_goes_no_further(bench: Bench) -> None:
    ref = message(bench)
    cancel(bench, ref, HERE, (FORWARDED_HEADER, b"1"))
    assert outcomes(bench) == [(HERE, Outcome.UNMATCHED, "not-pending")]
    assert bench.queue.offsets(BUFFER, THERE)[1] == 1


@pytest.mark.parametrize("shard", [Shard("orders", "4"), Shard("orders", "x"), Shard("mails", "1")])
def test_a_shard_that_this_topic_does_not_have_is_no_match(bench: Bench, shard: Shard) -> None:
    if shard.topic != "orders":
        bench.queue.ensure_buffer(shard.topic, DEFAULT_RULES)
    cancel(bench, MessageId(shard, 0, bench.clock.now_ms()))
    assert outcomes(bench) == [(HERE, Outcome.UNMATCHED, "not-pending")]


def test_partitions_that_are_added_later_are_known_in_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.turn()
    known = bench.queue.buffer(Shard("orders", HERE))
    more = known._replace(partitions=(*PARTITIONS, "4"))
    monkeypatch.setattr(type(bench.queue), "buffer", lambda *_: more)
    core = bench.worker.core(Shard("orders", HERE))
    assert core is not None
    before = "4" in core.partitions
    for _ in range(5):
        bench.clock.advance(11_000)
        bench.turn()
        bench.worker.buffer_maintenance.executor.submit(lambda: None).result()
    assert (before, "4" in core.partitions) == (False, True)


# --- the record


@pytest.mark.parametrize("due_ms", [None, 1_767_225_600_000])
@pytest.mark.parametrize("version", [None, 0, 3])
@pytest.mark.parametrize("undo", [None, "0.17"])
def test_what_is_forwarded_is_read_as_the_same_operation(
    due_ms: int | None, version: int | None, undo: str | None
) -> None:
    operation = Operation(MessageId(Shard("orders.eu", "3"), 17, 1_767_225_600_000), due_ms, version, undo=undo)
    found = read(encode_forwarded(operation), 1_767_225_500_000, DEFAULT_RULES)
    assert found == operation._replace(forwarded=True)


def test_own_ids_do_not_determine_the_shard() -> None:
    assert forward(Operation("order-7", None), Shard("orders", HERE), PARTITIONS, NAMES) is None
