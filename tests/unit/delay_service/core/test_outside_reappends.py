"""Re-appends that somebody else has written, as a repair does: whatever has become of the old record, one comes."""

import pytest

from delayline.buffer.outcome import Outcome
from delayline.buffer.record import Message, encode_reappend, read
from delayline.records.message import Header, Key, MessageId
from delayline.schedule.rules import DEFAULT_RULES
from mq.errors import CommitAborted
from store.memory import MemoryIndex
from tests.unit.delay_service.core.test_claims import HOUR, MINUTE, SECOND, delay, ids, own, restart, rows
from tests.unit.delay_service.harness import ORDERS, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def send(bench: Bench, *headers: Header) -> tuple[str, Key]:
    """A message's id and key."""
    offset = bench.send(b"m", *headers)
    message = meaning(bench, offset)
    return f"orders.0.{offset}.{message.due_ms}", Key(message.due_ms, offset)


def meaning(bench: Bench, offset: int) -> Message:
    record = bench.queue.read("delayline.buffer.orders", "0", offset, 1)[0]
    found = read(record.body, record.appended_at_ms, DEFAULT_RULES)
    assert isinstance(found, Message)
    return found


def repair(bench: Bench, message_id: str, key: Key) -> int:
    """Append it again; the offset of the re-append."""
    return bench.send_raw(encode_reappend(meaning(bench, key.offset).value, key, message_id, key.due_ms))


def lose(bench: Bench) -> tuple[str, Key]:
    """A message whose record is terminal, and which was delivered to nobody: taken out of the index by hand."""
    message_id, key = send(bench, delay(SECOND))
    bench.turn()
    assert bench.index.shard(ORDERS).discard(key)
    bench.send(b"other", delay(2 * SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn(6)
    assert bench.delivered() == [b"other"]
    return message_id, key


def cancel(bench: Bench, message_id: str) -> int:
    return bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", message_id.encode()))


def outcomes(bench: Bench) -> dict[int, Outcome]:
    found = [row[:2] for row in rows(bench)]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_a_lost_message_comes_at_once_and_under_its_own_id(bench: Bench) -> None:
    message_id, key = lose(bench)
    offset = repair(bench, message_id, key)
    bench.turn(6)
    assert ids(bench)[1:] == [message_id.encode()]
    assert outcomes(bench)[offset] is Outcome.DELIVERED


@pytest.mark.parametrize("lose_index", [False, True])
def test_it_comes_once_when_another_owner_reads_it(bench: Bench, lose_index: bool) -> None:
    message_id, key = lose(bench)
    bench.worker.stop()
    bench.worker.run()
    repair(bench, message_id, key)
    restart(bench, lose_index=lose_index)
    restart(bench, lose_index=True)
    assert ids(bench)[1:] == [message_id.encode()]


def test_a_record_that_is_pending_after_all_ends_with_its_re_append(bench: Bench) -> None:
    message_id, key = send(bench, delay(HOUR), own(b"k"))
    bench.turn()
    offset = repair(bench, message_id, key)
    bench.turn()
    assert bench.index.shard(ORDERS).pending() == 1
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    assert bench.delivered() == [b"m"]
    assert outcomes(bench) == {offset: Outcome.DELIVERED}  # that of the record itself is the repair's to write


@pytest.mark.parametrize("lose_index", [False, True])
def test_it_comes_once_also_after_a_takeover(bench: Bench, lose_index: bool) -> None:
    message_id, key = send(bench, delay(HOUR))
    bench.turn()
    repair(bench, message_id, key)
    bench.turn()
    restart(bench, lose_index=lose_index)
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    restart(bench, lose_index=True)
    assert bench.delivered() == [b"m"]


def test_its_own_id_is_its_own_still(bench: Bench) -> None:
    message_id, key = send(bench, delay(HOUR), own(b"k"))
    bench.turn()
    repair(bench, message_id, key)
    bench.turn()
    bench.send(b"second", delay(HOUR), own(b"k"))
    bench.turn()
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    assert bench.delivered() == [b"m"]


@pytest.mark.parametrize("cancel_first", [False, True])
def test_a_cancel_beside_it_is_answered_and_what_is_cancelled_never_comes(bench: Bench, cancel_first: bool) -> None:
    message_id, key = send(bench, delay(HOUR))
    bench.turn()
    asked = cancel(bench, message_id) if cancel_first else None
    repair(bench, message_id, key)
    asked = cancel(bench, message_id) if asked is None else asked
    bench.turn(6)
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    assert outcomes(bench)[asked] is Outcome.APPLIED
    assert bench.delivered() == []


def test_a_cancel_that_came_before_a_lost_message_is_sent_again_has_found_nothing(bench: Bench) -> None:
    message_id, key = lose(bench)
    asked = cancel(bench, message_id)
    bench.turn()
    repair(bench, message_id, key)
    bench.turn(6)
    assert outcomes(bench)[asked] is Outcome.UNMATCHED
    assert ids(bench)[1:] == [message_id.encode()]


@pytest.mark.parametrize("fails", [False, True])
def test_a_record_that_is_on_its_way_while_the_re_append_is_read_comes_once(bench: Bench, fails: bool) -> None:
    message_id, key = send(bench, delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)

    def repaired_meanwhile(_: object) -> Exception | None:
        bench.sink.fault = lambda _: None
        repair(bench, message_id, key)
        core = bench.worker.core(ORDERS)
        assert core is not None
        records = bench.queue.read("delayline.buffer.orders", "0", core.position, 10)
        core.ingest(records, bench.clock.now_ms())
        bench.source.seek(ORDERS, core.position)
        return CommitAborted("not now") if fails else None

    bench.sink.fault = repaired_meanwhile
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn(8)
    assert bench.delivered() == [b"m"]
    assert bench.index.shard(ORDERS).pending() == 0


def test_it_is_found_by_its_id_while_it_waits_again(bench: Bench) -> None:
    message_id, key = send(bench, delay(HOUR))
    bench.turn()
    repair(bench, message_id, key)
    bench.turn()
    core = bench.worker.core(ORDERS)
    found = core.messages.find(MessageId.parse(message_id)) if core else None
    assert found is not None
    assert (found.version, found.key.due_ms) == (1, key.due_ms)


def test_what_was_to_be_rolled_is_rolled_no_more(bench: Bench) -> None:
    message_id, key = send(bench, delay(HOUR))
    bench.turn()
    core = bench.worker.core(ORDERS)
    assert core is not None
    repair(bench, message_id, key)
    core.rolls.ask([key])
    records = bench.queue.read("delayline.buffer.orders", "0", core.position, 10)
    core.ingest(records, bench.clock.now_ms())
    bench.source.seek(ORDERS, core.position)
    bench.turn()
    assert not core.rolls
    assert bench.index.shard(ORDERS).pending() == 1


def test_the_index_may_be_lost_at_any_moment(bench: Bench) -> None:
    message_id, key = lose(bench)
    repair(bench, message_id, key)
    bench.index = MemoryIndex()
    bench.start("w2")
    bench.clock.advance(SECOND)
    bench.turn(8)
    assert ids(bench)[1:] == [message_id.encode()]
