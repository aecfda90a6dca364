"""What is read of the mirror, and how often."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.cursor import Cursor
from delayline.message import Shard
from delayline.outcome import spread
from mq.errors import OffsetOutOfRange
from mq.kafka.mirror import FRESH_S, Mirror, shard_key
from mq.kafka.settings import KafkaSettings

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
        self.read: list[tuple[int, int]] = []

    def write(self, shard: Shard, epoch: int | None) -> None:
        value = None if epoch is None else cursor(epoch).encode()
        self.rows[spread(shard, ROWS)].append((shard_key(shard), value))

    def recall(self, _: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(topic_id=self.topic_id, partitions=tuple("0123")))

    def log_range(self, _: str, partition: int) -> tuple[int, int]:
        return 0, len(self.rows[partition])

    def onwards(
        self, _: str, starts: Mapping[int, int], ends: Mapping[int, int], _timeout_s: float
    ) -> tuple[list[Any], dict[int, int]]:
        found, positions = [], {}
        for number, asked in starts.items():
            start = max(asked, 0)  # the beginning is asked for by a number below it
            self.read.append((number, start))
            if start > len(self.rows[number]):
                raise OffsetOutOfRange("the log has been cut")
            if number in ends:
                self.hidden[number] = 0
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
    assert sorted(topic.read) == [(number, 0) for number in range(ROWS)]
    clock.advance(int(FRESH_S * 1000) + 1)
    topic.read.clear()
    assert mirror.cursor(SHARD) == cursor(2)
    own = spread(SHARD, ROWS)
    assert sorted(topic.read) == [(number, int(number == own)) for number in range(ROWS)]
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


@pytest.mark.parametrize("made_again", [True, False])
def test_a_topic_that_was_made_again_or_cut_is_read_anew(
    mirror: Mirror, topic: Topic, clock: ManualClock, *, made_again: bool
) -> None:
    for epoch in (1, 2, 3):
        topic.write(SHARD, epoch)
        topic.write(OTHER, epoch)
    assert (mirror.cursor(SHARD), mirror.cursor(OTHER)) == (cursor(3), cursor(3))
    topic.rows = {number: [] for number in range(ROWS)}
    topic.write(SHARD, 1)
    if made_again:
        topic.topic_id = b"b" * 16
        for number in range(ROWS):
            topic.rows[number] += [(b"", None)] * 9  # longer than what was read of the old one
    clock.advance(int(FRESH_S * 1000) + 1)
    assert (mirror.cursor(SHARD), mirror.cursor(OTHER)) == (cursor(1), None)
