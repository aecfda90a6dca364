"""What is read of the mirror, and how often."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import spread
from delayline.clock import ManualClock
from delayline.records.message import Shard
from mq.errors import QueueUnavailable
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker.mirror import FRESH_S, Mirror, shard_key

ROWS = 4
SHARD, OTHER = Shard("orders", "0"), Shard("orders", "1")
Log = list[tuple[bytes, bytes | None]]


def cursor(epoch: int) -> Cursor:
    return Cursor(topic_id=b"t" * 16, owner_epoch=epoch, writer=f"w{epoch}")


class Topic:
    """Rows of the cursors' topic; `hidden` is how many of each row's records stand behind an open transaction, and is
    none any more when somebody waits for them."""

    def __init__(self) -> None:
        self.rows: dict[int, Log] = {number: [] for number in range(ROWS)}
        self.hidden = dict.fromkeys(range(ROWS), 0)
        self.topic_id = b"a" * 16
        self.starts = dict.fromkeys(range(ROWS), 0)
        self.read: list[tuple[int, int]] = []
        self.starts_asked: list[int] = []

    def write(self, shard: Shard, epoch: int | None) -> None:
        value = None if epoch is None else cursor(epoch).encode()
        self.rows[spread(shard, ROWS)].append((shard_key(shard), value))

    def recall(self, _: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(topic_id=self.topic_id, partitions=tuple("0123")))

    def log_ends(self, _: str, partitions: Sequence[int], *, readable: bool = False) -> dict[int, int]:
        return {number: len(self.rows[number]) - readable * self.hidden[number] for number in partitions}

    def log_starts(self, _: str, partitions: Sequence[int]) -> dict[int, int]:
        self.starts_asked += partitions
        return {number: self.starts[number] for number in partitions}

    def onwards(
        self, _: str, starts: Mapping[int, int], ends: Mapping[int, int], _timeout_s: float
    ) -> tuple[list[Any], dict[int, int]]:
        found, positions = [], {}
        for number, start in starts.items():
            assert start >= self.starts[number]
            self.read.append((number, start))
            self.hidden[number] = min(self.hidden[number], len(self.rows[number]) - ends[number])
            positions[number] = len(self.rows[number]) - self.hidden[number]
            for key, value in self.rows[number][start : positions[number]]:
                found.append(_message(number, key, value))
        return found, positions


def _message(number: int, key: bytes, value: bytes | None) -> Any:
    return SimpleNamespace(partition=lambda: number, key=lambda: key, value=lambda: value)


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def mirror(topic: Topic, clock: ManualClock) -> Mirror:
    given: Any = topic
    return Mirror(KafkaSettings(bootstrap_servers="127.0.0.1:1"), given, given, clock)


def test_the_last_cursor_of_a_shard_counts_and_no_other_shards(mirror: Mirror, topic: Topic) -> None:
    assert mirror.cursor(OTHER, whole=True) is None
    for epoch in (1, 2):
        topic.write(SHARD, epoch)
    topic.write(OTHER, 9)
    assert mirror.cursor(SHARD) == cursor(2)
    assert mirror.cursor(OTHER, whole=True) == cursor(9)


def test_what_was_read_is_read_once_and_a_moment_later_only_what_came_since(
    mirror: Mirror, topic: Topic, clock: ManualClock
) -> None:
    topic.write(SHARD, 1)
    assert mirror.cursor(SHARD) == cursor(1)
    topic.write(SHARD, 2)
    assert (mirror.cursor(SHARD), mirror.cursor(OTHER)) == (cursor(1), None)
    assert topic.read == [(spread(SHARD, ROWS), 0)]
    clock.advance(int(FRESH_S * 1000) + 1)
    topic.read.clear()
    assert mirror.cursor(SHARD) == cursor(2)
    assert topic.read == [(spread(SHARD, ROWS), 1)]
    topic.write(OTHER, 5)
    clock.advance(int(FRESH_S * 1000) + 1)
    assert (mirror.cursor(OTHER), mirror.cursor(SHARD)) == (cursor(5), cursor(2))


def test_the_whole_of_it_is_read_whenever_it_is_asked_for(mirror: Mirror, topic: Topic) -> None:
    topic.write(SHARD, 1)
    assert mirror.cursor(SHARD) == cursor(1)
    topic.write(SHARD, 2)
    topic.hidden[spread(SHARD, ROWS)] = 1
    assert mirror.cursor(SHARD, whole=True) == cursor(2)
    assert mirror.cursor(SHARD) == cursor(2)


def test_where_a_row_begins_is_asked_once_and_by_ourselves(mirror: Mirror, topic: Topic, clock: ManualClock) -> None:
    row = spread(SHARD, ROWS)
    for epoch in (1, 2, 3):
        topic.write(SHARD, epoch)
    topic.starts[row] = 2
    assert mirror.cursor(SHARD) == cursor(3)
    topic.write(SHARD, 4)
    clock.advance(1000)
    assert mirror.cursor(SHARD) == mirror.cursor(SHARD, whole=True) == cursor(4)
    assert (topic.read, topic.starts_asked) == ([(row, 2), (row, 3)], [row])


def test_what_was_prepared_is_not_read_again_and_a_reader_was_lent_even_for_nothing(
    mirror: Mirror, topic: Topic
) -> None:
    row = spread(SHARD, ROWS)
    topic.write(SHARD, 1)
    mirror.prepare()
    assert sorted(topic.read) == [(number, 0) for number in range(ROWS)]
    assert mirror.cursor(SHARD) == mirror.cursor(SHARD, whole=True) == cursor(1)
    assert len(topic.read) == ROWS
    topic.write(SHARD, 2)
    assert mirror.cursor(SHARD, whole=True) == cursor(2)
    assert topic.read[ROWS:] == [(row, 1)]


def test_what_is_hidden_is_not_waited_for_where_the_whole_is_not_asked_for(
    mirror: Mirror, topic: Topic, clock: ManualClock
) -> None:
    topic.write(SHARD, 1)
    topic.write(SHARD, 2)
    topic.hidden[spread(SHARD, ROWS)] = 1
    assert mirror.cursor(SHARD) == cursor(1)
    topic.hidden[spread(SHARD, ROWS)] = 0
    clock.advance(int(FRESH_S * 1000) + 1)
    assert mirror.cursor(SHARD) == cursor(2)


def test_a_cursor_that_was_taken_away_is_none(mirror: Mirror, topic: Topic) -> None:
    topic.write(SHARD, 1)
    topic.write(SHARD, None)
    assert mirror.cursor(SHARD) is None


def test_a_topic_that_was_made_again_is_read_anew(mirror: Mirror, topic: Topic, clock: ManualClock) -> None:
    for epoch in (1, 2, 3):
        topic.write(SHARD, epoch)
        topic.write(OTHER, epoch)
    assert (mirror.cursor(SHARD), mirror.cursor(OTHER)) == (cursor(3), cursor(3))
    topic.topic_id = b"b" * 16
    topic.rows = {number: [] for number in range(ROWS)}
    topic.write(SHARD, 1)
    for number in range(ROWS):
        topic.rows[number] += [(b"", None)] * 9  # longer than what was read of the old one
    clock.advance(int(FRESH_S * 1000) + 1)
    assert (mirror.cursor(SHARD), mirror.cursor(OTHER)) == (cursor(1), None)


def test_a_topic_that_ends_before_what_was_read_of_it_closes_nothing(
    mirror: Mirror, topic: Topic, clock: ManualClock
) -> None:
    """Brokers have lost some of it, or do not know yet how much they have."""
    for epoch in (1, 2, 3):
        topic.write(SHARD, epoch)
    assert mirror.cursor(SHARD) == cursor(3)
    lost = topic.rows[spread(SHARD, ROWS)].pop()
    clock.advance(int(FRESH_S * 1000) + 1)
    for whole in (False, True):
        with pytest.raises(QueueUnavailable, match="ends before"):
            mirror.cursor(SHARD, whole=whole)
    topic.rows[spread(SHARD, ROWS)].append(lost)
    assert mirror.cursor(SHARD) == cursor(3)
