"""Lists and counts over a worker's shards."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from delay_service.query import finding
from delay_service.worker.loop import Worker
from delayline.buffer.outcome import AuditRow, Outcome
from delayline.clock import ManualClock
from delayline.questions.inquiry import DueCounts, DueQuery, Listing, OwnerUnavailable, Place, Query, State, merge
from delayline.records.message import Shard
from delayline.records.record import encode_body
from mq.contract import Append, Lost
from store.index import Entry
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

T = TypeVar("T")
MINUTE_MS = 60_000


class Asked:
    """Asks the bench's worker at once, and counts."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.questions = 0

    def __call__(self, question: Callable[[Worker], T]) -> T:
        self.questions += 1
        return question(self._bench.worker)


def made(partitions: int = 1) -> tuple[Bench, Asked]:
    bench = Bench(partitions=partitions)
    bench.turn()
    return bench, Asked(bench)


def shards(count: int) -> list[Shard]:
    return [Shard("orders", str(number)) for number in range(count)]


def send(bench: Bench, partition: int, delay_ms: int, key: bytes | None = None, value: bytes = b"") -> None:
    body = encode_body(key, value, [(b"delay-ms", b"%d" % delay_ms)])
    bench.queue.append([Append(NAMES.buffer("orders"), str(partition), body)]).result()


def walk(bench: Bench, ask: Asked, of: Sequence[Shard], query: Query) -> list[Listing]:
    """All pages, one behind the other."""
    pages: list[Listing] = []
    while not pages or query.after is not None:
        page = finding.page(ask, bench.history, of, query)
        pages.append(page)
        query = Query(**{name: getattr(query, name) for name in Query.__slots__} | {"after": page.upto})
        assert len(pages) < 100
    return pages


def delays(bench: Bench, pages: Sequence[Listing]) -> list[int]:
    return [row.place.rank - bench.clock.now_ms() for page in pages for row in page.rows]


# --- a key among many


def searched(monkeypatch: pytest.MonkeyPatch, seconds_per_question: float) -> tuple[Bench, Listing]:
    """A page that looks for the last of a hundred messages."""
    monkeypatch.setattr(finding, "LOOKED_MAX", 10)
    monkeypatch.setattr(finding, "STRETCH_ENTRIES", 10)
    bench, ask = made()
    for number in range(100):
        send(bench, 0, 10_000 + number, b"%d" % number)
    bench.turn()
    clock = ManualClock()

    def slow(question: Callable[[Worker], T]) -> T:
        clock.advance(int(seconds_per_question * 1000))
        return ask(question)

    return bench, finding.page(slow, bench.history, [ORDERS], Query(key=b"99"), clock)


def test_a_key_is_looked_for_beyond_a_pages_entries_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, page = searched(monkeypatch, 0)
    assert [row.found.key for row in page.rows] == [b"99"]
    assert (page.upto, page.looked) == (None, 100)


def test_when_the_time_is_over_the_page_shows_how_far_it_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, page = searched(monkeypatch, finding.SEARCH_S / 4)
    assert page.rows == ()
    assert 10 < page.looked < 100
    assert page.upto is not None
    rest = finding.page(Asked(bench), bench.history, [ORDERS], Query(key=b"99", after=page.upto))
    assert [row.found.key for row in rest.rows] == [b"99"]
    assert rest.looked == 100 - page.looked


# --- what waits


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_of_any_size_are_one_list_by_due_time_shard_and_offset(limit: int) -> None:
    bench, ask = made(3)
    for number in range(20):
        send(bench, number % 3, 10_000 + number * 7 % 5 * 1000)
    bench.turn()

    pages = walk(bench, ask, shards(3), Query(limit=limit))

    places = [row.place for page in pages for row in page.rows]
    assert len(places) == 20
    assert places == sorted(set(places))
    assert all(len(page.rows) == limit for page in pages[:-1])
    assert all(page.shards == tuple(shards(3)) for page in pages)


def test_a_row_is_the_message_as_its_id_finds_it_without_what_it_carries_but_its_key() -> None:
    bench, ask = made()
    send(bench, 0, 5000, b"7", b"value")
    bench.turn()
    (row,) = finding.page(ask, bench.history, [ORDERS], Query()).rows
    now_ms = bench.clock.now_ms()
    assert (str(row.found.id), row.found.state) == (f"orders.0.0.{now_ms + 5000}", State.PENDING)
    assert (row.found.key, row.found.value, row.found.accepted_at_ms) == (b"7", None, now_ms)
    assert row.place == Place(now_ms + 5000, ORDERS, 0)


def test_near_and_far_messages_stand_in_one_list() -> None:
    bench, ask = made()
    for delay_ms in (50_000, 900, 1100, 70_000, 950):
        send(bench, 0, delay_ms)
    bench.turn()
    assert delays(bench, walk(bench, ask, [ORDERS], Query(limit=2))) == [900, 950, 1100, 50_000, 70_000]


def test_due_times_bound_a_list_from_the_first_and_before_the_second() -> None:
    bench, ask = made(2)
    for number in range(10):
        send(bench, number % 2, 10_000 + number)
    bench.turn()
    now_ms = bench.clock.now_ms()
    bounded = Query(due_from_ms=now_ms + 10_003, due_until_ms=now_ms + 10_007, limit=3)
    assert delays(bench, walk(bench, ask, shards(2), bounded)) == [10_003, 10_004, 10_005, 10_006]


def test_a_key_is_found_among_many_in_several_questions_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "STRETCH_ENTRIES", 20)
    monkeypatch.setattr(finding, "LOOKED_MAX", 50)
    monkeypatch.setattr(finding, "SEARCH_S", 0.0)
    bench, ask = made(2)
    for number in range(200):
        send(bench, number % 2, 10_000 + number, b"rare" if number % 97 == 0 else b"rarely")
    bench.turn(8)

    pages = walk(bench, ask, shards(2), Query(key=b"rare", limit=10))

    assert delays(bench, pages) == [10_000, 10_097, 10_194]
    assert 4 <= len(pages) <= 6
    assert any(not page.rows for page in pages)


def test_no_question_looks_at_more_than_a_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "STRETCH_ENTRIES", 20)
    bench, ask = made(2)
    for number in range(100):
        send(bench, number % 2, 10_000 + number)
    bench.turn(8)
    asked: list[tuple[int, int]] = []
    for shard in shards(2):
        index = bench.index.shard(shard)

        def scan(*given: Any, then: Any = index.scan) -> list[Entry]:
            asked.append((ask.questions, given[1]))
            return list(then(*given))

        monkeypatch.setattr(index, "scan", scan)
    assert len(finding.page(ask, bench.history, shards(2), Query(limit=100)).rows) == 100
    by_question = [sum(limit for at, limit in asked if at == number) for number in range(ask.questions + 1)]
    assert max(by_question) == 20


def test_large_messages_are_listed_in_more_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "STRETCH_BYTES", 1000)
    bench, ask = made()
    for number in range(9):
        send(bench, 0, 10_000 + number, value=b"x" * 400)
    bench.turn()
    assert len(finding.page(ask, bench.history, [ORDERS], Query()).rows) == 9
    assert ask.questions >= 5


def test_shards_whose_messages_are_due_later_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "STRETCH_SHARDS", 1)
    bench, ask = made(40)
    for number in range(40):
        send(bench, number, 10_000 + number * 1000)
    bench.turn(8)
    found = finding.page(ask, bench.history, shards(40), Query(limit=3))
    assert delays(bench, [found]) == [10_000, 11_000, 12_000]
    assert ask.questions <= 4


def test_a_shard_of_another_worker_does_not_answer() -> None:
    bench, ask = made()
    send(bench, 0, 5000)
    bench.turn()
    page = finding.page(ask, bench.history, [ORDERS, Shard("orders", "9")], Query())
    assert (page.shards, len(page.rows)) == ((ORDERS,), 1)


def test_a_shard_that_is_not_read_to_its_end_does_not_answer() -> None:
    bench, ask = made()
    send(bench, 0, 5000)
    bench.turn()
    core = bench.worker.core(ORDERS)
    assert core is not None
    core.read_to.until(99)
    assert finding.page(ask, bench.history, [ORDERS], Query()).shards == ()
    assert finding.due_counts(ask, [ORDERS], DueQuery(0, 1, 1)) == []


def test_a_shard_that_is_lost_between_two_questions_does_not_answer() -> None:
    bench, ask = made()
    send(bench, 0, 5000)
    bench.turn()

    def losing(question: Callable[[Worker], T]) -> T:
        answer = ask(question)
        bench.source.poll = lambda *_: [Lost([ORDERS])]
        bench.worker.read()
        return answer

    page = finding.page(losing, bench.history, [ORDERS], Query())
    assert (page.shards, page.rows, page.upto) == ((), (), None)


def test_a_worker_that_does_not_answer_is_an_error() -> None:
    bench, _ = made()

    def silent(question: Callable[[Worker], T]) -> T:
        raise OwnerUnavailable

    with pytest.raises(OwnerUnavailable):
        finding.page(silent, bench.history, [ORDERS], Query())


def test_a_moved_message_is_listed_at_its_new_time_before_its_record_is_read_back() -> None:
    bench, ask = made()
    send(bench, 0, 5000, b"7")
    bench.turn()
    now_ms = bench.clock.now_ms()
    message_id = f"orders.0.0.{now_ms + 5000}"
    bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", message_id.encode()), (b"delay-ms", b"9000"))
    bench.worker.turn()
    bench.worker.turn()
    bench.worker.wait_for_commit()
    core = bench.worker.core(ORDERS)
    assert core is not None
    assert core.messages.waiting()[1], "its re-append is not read yet"

    (row,) = finding.page(ask, bench.history, [ORDERS], Query()).rows
    (counts,) = finding.due_counts(ask, [ORDERS], DueQuery((now_ms + 9000) // MINUTE_MS, 1, 1))
    bench.turn()
    (later,) = finding.page(ask, bench.history, [ORDERS], Query()).rows

    for found in (row.found, later.found):
        assert (str(found.id), found.due_ms, found.version, found.key) == (message_id, now_ms + 9000, 1, b"7")
    assert sum(counts.counts) == 1


def test_repeats_are_counted_also_while_they_move_and_by_the_next_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, _ = made()
    for number in range(6):
        repeat = ((b"delay-every", b"2s"),) if number % 2 else ()
        bench.send(b"%d" % number, (b"delay-ms", b"1000"), *repeat)
    bench.turn()
    assert repeats(bench) == 3

    bench.clock.advance(1000)
    with monkeypatch.context() as reading:
        reading.setattr(bench.worker, "read", lambda: None)
        bench.turn()
    core = bench.worker.core(ORDERS)
    assert core is not None
    assert len(core.messages.waiting()[1]) == 3, "their re-appends are not read yet"
    assert repeats(bench) == 3

    bench.start("another")
    bench.turn()
    assert repeats(bench) == 3


def repeats(bench: Bench) -> int:
    core = bench.worker.core(ORDERS)
    return 0 if core is None else core.messages.repeats()


def test_a_message_that_moves_far_ahead_waits_for_its_place_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "STRETCH_ENTRIES", 3)
    bench, ask = made()
    for number in range(9):
        send(bench, 0, 5000 + number)
    bench.turn()
    message_id = f"orders.0.0.{bench.clock.now_ms() + 5000}".encode()
    bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", message_id), (b"delay-ms", b"9000"))
    bench.worker.turn()
    bench.worker.turn()
    bench.worker.wait_for_commit()
    core = bench.worker.core(ORDERS)
    assert core is not None
    assert core.messages.waiting()[1], "its re-append is not read yet"
    listed = delays(bench, walk(bench, ask, [ORDERS], Query(limit=4)))
    assert listed == [*range(5001, 5009), 9000]


def test_a_record_that_goes_to_the_dead_letters_is_listed_until_then() -> None:
    bench, ask = made()
    bench.send_raw(b"\xff\xff\xff")
    bench.worker.read()
    (row,) = finding.page(ask, bench.history, [ORDERS], Query()).rows
    assert (row.found.key, row.found.accepted_at_ms, row.found.id.offset) == (None, bench.clock.now_ms(), 0)
    bench.turn()
    assert finding.page(ask, bench.history, [ORDERS], Query()).rows == ()


# --- own ids


def name(bench: Bench, partition: int, delay_ms: int, own_id: bytes, key: bytes = b"7") -> None:
    body = encode_body(key, b"", [(b"delay-ms", b"%d" % delay_ms), (b"delay-id", own_id)])
    bench.queue.append([Append(NAMES.buffer("orders"), str(partition), body)]).result()


def test_a_message_is_found_by_its_own_id_in_every_shard() -> None:
    bench, ask = made(3)
    for partition, delay_ms in ((2, 5000), (0, 6000), (1, 7000)):
        name(bench, partition, delay_ms, b"mine")
        name(bench, partition, 1, b"other")
    bench.turn(8)

    page = finding.page(ask, bench.history, shards(3), Query(own_id="mine"))
    pages = walk(bench, ask, shards(3), Query(own_id="mine", limit=1))

    assert delays(bench, [page]) == delays(bench, pages) == [5000, 6000, 7000]
    assert ({row.found.own_id for row in page.rows}, page.shards) == ({"mine"}, tuple(shards(3)))
    assert (len(pages), pages[0].rows[0].found.key) == (3, b"7")


def test_an_own_id_is_looked_for_within_the_other_filters() -> None:
    bench, ask = made()
    name(bench, 0, 5000, b"mine")
    bench.turn(8)
    now_ms = bench.clock.now_ms()
    for query, found in (
        (Query(own_id="mine", key=b"7", due_from_ms=now_ms + 5000), 1),
        (Query(own_id="mine", key=b"8"), 0),
        (Query(own_id="mine", due_until_ms=now_ms + 5000), 0),
        (Query(own_id="mine", due_from_ms=now_ms + 5001), 0),
        (Query(own_id="min"), 0),
    ):
        assert len(finding.page(ask, bench.history, [ORDERS], query).rows) == found, query


def test_the_own_id_stands_in_other_lists_too() -> None:
    bench, ask = made()
    name(bench, 0, 5000, b"mine")
    bench.turn(8)
    (row,) = finding.page(ask, bench.history, [ORDERS], Query()).rows
    assert row.found.own_id == "mine"


# --- what has ended


def ended(bench: Bench, times: int) -> None:
    """One message delivered at a time."""
    for _ in range(times):
        send(bench, 0, 1000)
        bench.turn()
        bench.clock.advance(1000)
        bench.turn()


def test_what_was_delivered_comes_newest_first_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, ask = made()
    ended(bench, 5)
    pages = walk(bench, ask, [ORDERS], Query(state=State.DELIVERED, limit=2))
    assert [[row.found.id.offset for row in page.rows] for page in pages] == [[4, 3], [2, 1], [0]]
    assert all(row.found.ending is not None for page in pages for row in page.rows)


def test_what_was_delivered_in_one_commit_is_kept_apart_over_pages() -> None:
    bench, ask = made()
    for _ in range(5):
        send(bench, 0, 1000)
    bench.turn()
    bench.clock.advance(1000)
    bench.turn()
    pages = walk(bench, ask, [ORDERS], Query(state=State.DELIVERED, limit=2))
    assert [row.found.id.offset for page in pages for row in page.rows] == [0, 1, 2, 3, 4]


def test_a_message_that_ended_twice_is_listed_once_where_it_ended_last() -> None:
    bench, ask = made()
    for at_ms in (1000, 2000):
        row = AuditRow(7, "orders.0.7.900", 900, 500, Outcome.DELIVERED)
        bench.history.record(ORDERS, [row], at_ms)
    found = finding.page(ask, bench.history, [ORDERS], Query(state=State.DELIVERED)).rows
    assert [row.place.rank for row in found] == [-2000]


def test_a_list_of_what_has_ended_goes_on_after_its_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "ENDED_AT_ONCE", 2)
    monkeypatch.setattr(finding, "LOOKED_MAX", 5)
    bench, ask = made()
    ended(bench, 9)
    pages = walk(bench, ask, [ORDERS], Query(state=State.CANCELLED, limit=2))
    assert len(pages) > 1
    assert not any(page.rows for page in pages)
    found = walk(bench, ask, [ORDERS], Query(state=State.DELIVERED, limit=100))
    assert [row.found.id.offset for page in found for row in page.rows] == list(range(8, -1, -1))


def test_what_has_ended_is_bounded_by_its_due_time_and_by_shard() -> None:
    bench, ask = made()
    ended(bench, 3)
    found = finding.page(ask, bench.history, [ORDERS], Query(state=State.DELIVERED)).rows
    due_ms = found[1].found.due_ms
    one = Query(state=State.DELIVERED, due_from_ms=due_ms, due_until_ms=due_ms + 1)
    assert finding.page(ask, bench.history, [ORDERS], one).rows == (found[1],)
    assert finding.page(ask, bench.history, [Shard("mail", "0")], Query(state=State.DELIVERED)).rows == ()


# --- counts


def test_counts_are_by_shard_and_bucket() -> None:
    bench, ask = made(2)
    start_ms = bench.clock.now_ms() // MINUTE_MS * MINUTE_MS
    for partition, minutes in ((0, 0), (0, 5), (1, 5), (1, 6), (1, 99)):
        send(bench, partition, minutes * MINUTE_MS + 10_000)
    bench.turn()
    query = DueQuery(start_ms // MINUTE_MS + 5, 1, 2)
    found = finding.due_counts(ask, [*shards(2), Shard("orders", "2")], query)
    assert found == [
        DueCounts(Shard("orders", "0"), (1, 1, 0, 0)),
        DueCounts(Shard("orders", "1"), (0, 1, 1, 1)),
    ]


# --- several processes


def listing(shard: Shard, ranks: Sequence[int], upto: int | None) -> Listing:
    bench, ask = made()
    send(bench, 0, 5000)
    bench.turn()
    (row,) = finding.page(ask, bench.history, [ORDERS], Query()).rows
    rows = tuple(type(row)(Place(rank, shard, 0), row.found) for rank in ranks)
    return Listing((shard,), rows, None if upto is None else Place(upto, shard, 0))


def test_rows_behind_what_some_process_has_not_looked_at_wait() -> None:
    one, other = Shard("orders", "1"), Shard("orders", "2")
    rows, place = merge([listing(one, [1, 5, 9], 9), listing(other, [2], 6)], 10)
    assert ([row.place.rank for row in rows], place) == ([1, 2, 5], Place(6, other, 0))


def test_the_limit_cuts_the_rows_of_all_and_the_list_goes_on_there() -> None:
    one, other = Shard("orders", "1"), Shard("orders", "2")
    rows, place = merge([listing(one, [1, 5], None), listing(other, [2], None)], 2)
    assert ([row.place.rank for row in rows], place) == ([1, 2], Place(2, other, 0))


def test_a_list_that_everybody_has_seen_the_end_of_ends() -> None:
    one, other = Shard("orders", "1"), Shard("orders", "2")
    rows, place = merge([listing(one, [1, 5], None), listing(other, [2], None)], 3)
    assert ([row.place.rank for row in rows], place) == ([1, 2, 5], None)
    assert merge([], 3) == ([], None)


def send_own(bench: Bench, partition: int, own_id: bytes, delay_ms: int) -> None:
    body = encode_body(b"k", own_id, [(b"delay-ms", b"%d" % delay_ms), (b"delay-id", own_id)])
    bench.queue.append([Append(NAMES.buffer("orders"), str(partition), body)]).result()


def test_messages_are_found_by_their_own_id_in_the_order_of_their_due_times() -> None:
    bench, ask = made(partitions=3)
    for partition, delay_ms in enumerate((3000, 1000, 2000)):
        send_own(bench, partition, b"x", delay_ms)
        send_own(bench, partition, b"y", 500)
    bench.turn(3)
    pages = walk(bench, ask, shards(3), Query(own_id="x", limit=2))
    assert [len(page.rows) for page in pages] == [2, 1]
    assert delays(bench, pages) == [1000, 2000, 3000]
    assert {row.found.terms.own_id for page in pages for row in page.rows if row.found.terms} == {"x"}
    assert pages[0].shards == tuple(shards(3))


@pytest.mark.parametrize(
    "query",
    [
        Query(own_id="z"),
        Query(own_id="x", key=b"other"),
        Query(own_id="x", due_until_ms=1),
        Query(own_id="x", due_from_ms=1 << 60),
    ],
)
def test_a_message_with_another_own_id_key_or_time_is_not_found(query: Query) -> None:
    bench, ask = made()
    send_own(bench, 0, b"x", 1000)
    bench.turn(3)
    assert [page.rows for page in walk(bench, ask, shards(1), query)] == [()]
