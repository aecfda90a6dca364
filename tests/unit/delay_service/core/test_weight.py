"""How much a batch writes, weighed before it is taken."""

from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.weight import fitting, row_weight, weight
from delayline.buffer.outcome import encode_audit
from delayline.buffer.record import Meta, encode_value
from delayline.records.message import Shard
from delayline.records.record import encode_body, pack, split_directives
from store.index import PlainEntry
from tests.unit.delay_service.harness import NAMES

ORDERS = Shard("orders", "0")
ENTRIES = st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=12)


def entries_of(given_sizes: list[tuple[int, bool]]) -> list[PlainEntry]:
    """`(size, plain)` each."""
    return [
        (50, offset, encode_value(None if plain else Meta(f"orders.0.{offset}.50", 1), packed_of(size)))
        for offset, (size, plain) in enumerate(given_sizes)
    ]


def packed_of(size: int) -> bytes:
    return pack(split_directives(encode_body(None, b"v" * size), set()), 7)


@given(ENTRIES)
def test_a_batch_is_never_heavier_than_it_was_weighed(given_sizes: list[tuple[int, bool]]) -> None:
    entries = entries_of(given_sizes)
    draft = BatchDrafter(ORDERS, NAMES, "delivery").draft(entries, 60, -1, {})
    audit = encode_audit(ORDERS, 1, 60, draft.rows, draft.plain)
    written = sum(len(body) for body, _ in draft.deliveries) + sum(map(len, (*draft.appends, *draft.dead, *audit)))
    fixed = 200 * bool(entries)  # the head of the audit record, once per batch
    assert written <= sum(weight(value) for *_, value in entries) + fixed


@given(ENTRIES, st.integers(0, 5000), st.booleans())
def test_as_many_fit_from_the_front_as_the_bound_allows(
    given_sizes: list[tuple[int, bool]], bytes_max: int, alone: bool
) -> None:
    entries = entries_of(given_sizes)
    left, expected = bytes_max, 0
    while expected < len(entries) and weight(entries[expected][2]) <= left:
        left -= weight(entries[expected][2])
        expected += 1
    if alone and entries:
        expected = max(expected, 1)
    assert fitting(entries, bytes_max, alone=alone) == entries[:expected]


def test_a_record_that_only_ends_weighs_its_row_and_both_names() -> None:
    assert row_weight("a" * 10, "b" * 5) - row_weight("", None) == 15
