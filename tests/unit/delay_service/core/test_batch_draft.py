"""What a batch writes about the records that it takes, plain ones and others side by side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.batch_draft import BatchDraft, BatchDrafter
from delay_service.core.dead import Refusal
from delayline.buffer.outcome import ROWS_PER_RECORD_MAX, AuditRow, Outcome
from delayline.buffer.record import Meta, encode_value
from delayline.names import Names
from delayline.records.message import Key, Shard
from delayline.records.record import decode_body, encode_body, pack, split_directives

ORDERS = Shard("orders", "3")
NOW_MS, ACCEPTED_MS = 1_767_225_610_000, 1_767_225_600_000
TIMESTAMPS = ("delivery", "due", "accepted")
Entry = tuple[int, int, bytes]


def entry(offset: int, due_ms: int, *, carried_on: bool = False) -> Entry:
    """`carried_on` by a re-append: that is not plain, but delivered all the same."""
    packed = pack(split_directives(encode_body(None, b"%d" % offset), set()), ACCEPTED_MS + offset)
    meta = Meta(f"orders.3.{offset}.{due_ms}", 1) if carried_on else None
    return due_ms, offset, encode_value(meta, packed)


def drafted(
    entries: list[Entry], timestamp: str = "delivery", refused: tuple[Key, ...] = (), expired_before_ms: int = -1
) -> BatchDraft:
    drafter = BatchDrafter(ORDERS, Names("delayline"), timestamp)
    return drafter.draft(entries, NOW_MS, expired_before_ms, dict.fromkeys(refused, Refusal("too-large", "it is")))


def rows(draft: BatchDraft) -> list[AuditRow]:
    """All of them, by key."""
    found = [*draft.rows, *(row for block in draft.plain for row in block.rows(ORDERS))]
    return sorted(found, key=lambda row: (row.due_ms or 0, row.offset))


def offsets(draft: BatchDraft) -> list[int]:
    return [int(decode_body(body).value or b"") for body, _ in draft.deliveries]


def test_nothing_taken_is_an_empty_draft() -> None:
    assert drafted([]) == BatchDraft()


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.sampled_from(TIMESTAMPS))
def test_plain_messages_and_others_are_delivered_in_their_order(carried_on: list[bool], timestamp: str) -> None:
    entries = [entry(9 - n, ACCEPTED_MS + 50 * n, carried_on=each) for n, each in enumerate(carried_on)]
    draft = drafted(entries, timestamp)
    assert offsets(draft) == [offset for _, offset, _ in entries]
    moments = {"delivery": lambda _: None, "due": lambda e: e[0], "accepted": lambda e: ACCEPTED_MS + e[1]}
    assert [stamp for _, stamp in draft.deliveries] == [moments[timestamp](each) for each in entries]
    assert rows(draft) == [
        AuditRow(offset, f"orders.3.{offset}.{due_ms}", due_ms, ACCEPTED_MS + offset, Outcome.DELIVERED)
        for due_ms, offset, _ in entries
    ]


def test_a_plain_message_that_its_target_refused_is_buried_and_its_neighbours_are_delivered() -> None:
    entries = [entry(offset, ACCEPTED_MS + 50) for offset in range(3)]
    draft = drafted(entries, refused=(Key(ACCEPTED_MS + 50, 1),))
    assert (offsets(draft), len(draft.dead)) == ([0, 2], 1)
    assert [row.outcome for row in rows(draft)] == [Outcome.DELIVERED, Outcome.DEAD, Outcome.DELIVERED]


def test_a_plain_message_that_is_too_late_expires_and_its_neighbours_are_delivered() -> None:
    entries = [entry(offset, ACCEPTED_MS + 50 * offset) for offset in range(3)]
    draft = drafted(entries, expired_before_ms=ACCEPTED_MS + 50)
    assert offsets(draft) == [1, 2]
    assert [row.outcome for row in rows(draft)] == [Outcome.EXPIRED, Outcome.DELIVERED, Outcome.DELIVERED]


@pytest.mark.parametrize("timestamp", TIMESTAMPS)
def test_rows_of_many_plain_messages_come_in_blocks_of_an_audit_record(timestamp: str) -> None:
    entries = [entry(offset, ACCEPTED_MS + offset) for offset in range(2 * ROWS_PER_RECORD_MAX + 1)]
    draft = drafted(entries, timestamp)
    assert [len(block) for block in draft.plain] == [ROWS_PER_RECORD_MAX, ROWS_PER_RECORD_MAX, 1]
    assert offsets(draft) == [row.offset for row in rows(draft)] == list(range(len(entries)))
