"""Whose turn it is in a batch: by itself, and in the worker."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from delay_service.worker.fair_scheduler import BatchBudget, FairScheduler
from delay_service.worker.owned import Owned
from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from mq.contract import ShardBatch
from tests.unit.delay_service.harness import Bench

MAIL = Shard("mail", "0")
BUSY = [Shard("orders", str(number)) for number in range(4)]
PLENTY = 1 << 30


class Queues:
    """Shards with so many due messages of some bytes each; `batch` lets them take turns, and returns who took how
    many in which order. `rates` bound what a shard may take beside its turn."""

    def __init__(self, due: Mapping[str, int], *, size: int = 1, rates: Mapping[str, int] | None = None) -> None:
        self.due = Counter(due)
        self.owned = {name: Owned(Shard("orders", name)) for name in due}
        self._size = size
        self._rates = rates or {}
        self._turns = FairScheduler(lambda owned: self.due[owned.id.partition] > 0, lambda: 0.0)

    def batch(self, records_max: int, bytes_max: int = PLENTY) -> dict[str, int]:
        taken: dict[str, int] = {}
        for owned, allowed in self._turns.of_batch(self.owned.values(), BatchBudget(records_max, bytes_max)):
            name = owned.id.partition
            bounds = (self.due[name], allowed.records, self._rates.get(name, PLENTY))
            number = min(*bounds, max(1, allowed.bytes // self._size))
            self._turns.took(owned, allowed, _part(owned.id, number, self._size) if number else None)
            self.due[name] -= number
            taken |= {name: number} if number else {}
        return taken


def _part(shard: Shard, number: int, size: int) -> ShardBatch:
    return ShardBatch(shard, Cursor(topic_id=bytes(16)), [(bytes(size), None)] * number)


# --- by itself


def test_nobody_gets_more_than_an_equal_part_while_nobody_is_known_to_be_hungry() -> None:
    queues = Queues({"a": 1000, "b": 1000, "c": 5, "d": 1000})
    assert queues.batch(100) == {"a": 25, "b": 25, "c": 5, "d": 45}


def test_what_the_small_ones_leave_over_is_there_for_a_larger_one() -> None:
    queues = Queues({"large": 0, "b": 0, "c": 0, "d": 0})
    for _ in range(2):
        queues.due.update(large=20, b=1, c=2, d=3)
        queues.batch(100)
    queues.due.update(large=90, b=1, c=2, d=3)
    assert list(queues.batch(100).items()) == [("b", 1), ("c", 2), ("d", 3), ("large", 90)]


def test_one_that_took_all_it_was_allowed_gets_everything_that_is_left_when_it_has_waited_longest() -> None:
    queues = Queues({"a": 1000, "b": 1000, "c": 1000})
    queues.batch(90)
    assert [queues.batch(90) for _ in range(4)] == [{"a": 90}, {"b": 90}, {"c": 90}, {"a": 90}]


def test_who_wants_little_is_in_every_batch_and_before_the_hungry_ones() -> None:
    queues = Queues({"a": 1000, "b": 1000, "few": 0})
    queues.batch(100)
    seen = []
    for _ in range(6):
        queues.due["few"] += 3
        seen.append(list(queues.batch(100).items()))
    assert seen == [[("few", 3), (name, 97)] for name in "ababab"]


@pytest.mark.parametrize("left", [0, 10])
def test_one_that_is_no_longer_hungry_comes_first_again_and_gets_a_part(left: int) -> None:
    queues = Queues({"a": 1000, "b": 50 + left})
    queues.batch(100)
    queues.batch(100)  # all of it to a
    with_little_left = queues.batch(100)
    queues.due["b"] += 1000
    assert (with_little_left.get("b", 0), queues.batch(100)) == (left, {"b": 50, "a": 50})


def test_who_has_nothing_due_or_stands_still_takes_no_part_away_from_others() -> None:
    queues = Queues({"a": 60, "b": 0, "c": 0, "still": 1000})
    queues.owned["still"].upkeep.skewed = True
    assert queues.batch(100)["a"] == 60
    assert not queues.owned["a"].turns.backlogged_since


def test_one_has_its_turn_also_while_nothing_of_it_is_due() -> None:
    queues = Queues({"a": 1000, "b": 0})
    turns = FairScheduler(lambda _: False, lambda: 0.0)
    queues.batch(100)
    queues.batch(100)
    assert [owned.id.partition for owned, _ in turns.of_batch(queues.owned.values(), BatchBudget(1, 1))] == ["b", "a"]


def test_bytes_are_shared_as_records_are() -> None:
    queues = Queues({"a": 1000, "b": 1000, "few": 2}, size=10)
    first = queues.batch(1000, 300)
    queues.due["few"] += 2
    assert first == {"a": 10, "b": 10, "few": 2}
    assert list(queues.batch(1000, 300).items()) == [("few", 2), ("a", 28)]


def test_a_record_that_is_larger_than_its_part_makes_its_shard_wait_behind_those_that_got_nothing() -> None:
    queues = Queues({"a": 2, "b": 2, "c": 2}, size=1000)
    assert [queues.batch(100, 300) for _ in range(4)] == [{"a": 1}, {"b": 1}, {"c": 1}, {"a": 1}]


def test_what_a_rate_limit_keeps_back_makes_nobody_hungry() -> None:
    queues = Queues({"a": 1000, "b": 1000, "limited": 1000}, rates={"limited": 5})
    assert [queues.batch(90).get("limited") for _ in range(4)] == [5, 5, 5, 5]


def test_who_wants_something_gets_something_in_one_of_as_many_batches_as_there_are_shards() -> None:
    for seed in range(100):
        _everybody_is_served(Random(seed), seed)


def _everybody_is_served(dice: Random, seed: int) -> None:
    names = [str(number) for number in range(dice.randint(1, 8))]
    queues = Queues({name: dice.choice((0, 1, 9, 200)) for name in names}, size=dice.randint(1, 40))
    records_max, bytes_max = dice.choice((1, 2, 10, 50)), dice.choice((1, 100, 1000))
    waited: Counter[str] = Counter()
    for _ in range(60):
        queues.due.update(dice.choices(names, k=dice.randint(0, 6)))
        wanting = {name for name, number in queues.due.items() if number}
        taken = queues.batch(records_max, bytes_max)
        waited = Counter({name: waited[name] + 1 for name in wanting - taken.keys()})
        assert bool(taken) == bool(wanting), seed
        assert max(waited.values(), default=0) < len(names), seed


# --- in the worker


def _burst(bench: Bench, shards: Iterable[Shard], messages: int, value: bytes = b"burst") -> None:
    """So many in each shard, all due at once, and read."""
    for shard in shards:
        for _ in range(messages):
            bench.send(value, (b"delay-ms", b"1000"), to=shard)
    bench.turn(4 * len(BUSY))
    bench.clock.advance(1000)


def _delivered_by_batch(bench: Bench, turns: int, *, also: Shard | None = None) -> list[dict[Shard, int]]:
    """Who delivers how many in each of so many batches; before each, a message falls due in `also`."""
    bench.sink.batches.clear()
    for _ in range(turns):
        if also is not None:
            bench.send(b"few", (b"delay-ms", b"0"), to=also)
            bench.worker.read()
        bench.turn(1)
    return [{part.shard: len(part.deliveries) for part in batch if part.deliveries} for batch in bench.sink.batches]


def test_a_message_of_another_topic_is_in_every_batch_while_thousands_of_one_topic_are_due() -> None:
    bench = Bench(partitions=len(BUSY), topics=("orders", "mail"))
    _burst(bench, BUSY, 300)
    batches = _delivered_by_batch(bench, 8, also=MAIL)
    assert [batch[MAIL] for batch in batches] == [1] * 8
    assert [sum(batch.values()) for batch in batches[1:]] == [100] * 7


def test_at_full_load_a_commit_touches_one_partition() -> None:
    bench = Bench(partitions=len(BUSY))
    _burst(bench, BUSY, 300)
    first, *others = _delivered_by_batch(bench, 9)
    assert len(first) == len(BUSY)
    assert [list(batch.values()) for batch in others] == [[100]] * 8
    assert all(one.keys() != next_.keys() for one, next_ in pairwise(others))


def test_large_messages_of_one_topic_leave_room_for_another_in_every_batch() -> None:
    bench = Bench(partitions=len(BUSY), topics=("orders", "mail"), batch_records_max=10_000)
    bench.settings = replace(bench.settings, batch_bytes_max=10_000)
    bench.start("w2")
    _burst(bench, BUSY, 30, bytes(1000))
    batches = _delivered_by_batch(bench, 8, also=MAIL)
    assert [batch[MAIL] for batch in batches] == [1] * 8
    assert all(sum(batch.values()) >= 8 for batch in batches[1:])


def test_what_leaves_at_a_limited_rate_is_delivered_at_that_rate_beside_a_burst() -> None:
    bench = Bench(partitions=len(BUSY), topics=("orders", "mail"), mail={"rate_max": 8})
    _burst(bench, [*BUSY, MAIL], 300)
    at_first = sum(batch.get(MAIL, 0) for batch in _delivered_by_batch(bench, 2))
    left = []
    for _ in range(6):
        bench.clock.advance(250)
        (batch,) = _delivered_by_batch(bench, 1)
        left.append(batch.get(MAIL, 0))
    assert (at_first, left) == (8, [2] * 6)
