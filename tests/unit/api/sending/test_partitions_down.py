"""Partitions that take nothing now: which messages go elsewhere, and when that is noticed."""

from collections.abc import Sequence
from typing import Any

import pytest

from api.sending.partitioner import partition_index
from api.topics import RENEWED_S
from mq.contract import AppendRequest, TopicInfo
from mq.errors import QueueUnavailable
from tests.unit.api.in_memory import Api


class Partly(Api):
    """Partitions of `orders` may be `down`: appends to them fail, and the queue shows it."""

    def __init__(self) -> None:
        super().__init__(topics_on_first_use=False)
        self.down: frozenset[str] = frozenset()
        self._topic, self._append_each = self.queue.topic, self.queue.append_each
        self.queue.topic = self._shown
        self.queue.append_each = self._appended

    def _shown(self, name: str) -> TopicInfo:
        return self._topic(name)._replace(down=self.down)

    def _appended(self, requests: Sequence[AppendRequest]) -> None:
        for request in requests:
            if any(record.partition in self.down for record in request.records):
                request.ended(QueueUnavailable("the broker is down"))
            else:
                self._append_each([request])

    def places(self, count: int, **message: Any) -> list[int]:
        """Partitions that so many messages went to; the status where one was refused."""
        answers = [self.send({"value": "x", **message}) for _ in range(count)]
        return [one.json()["partition"] if one.is_success else one.status_code for one in answers]


@pytest.fixture
def api() -> Partly:
    made = Partly()
    made.queue.ensure_topic("orders")
    assert set(made.places(4)) == {0, 1, 2, 3}
    return made


def test_messages_without_a_key_go_to_partitions_that_take_some(api: Partly) -> None:
    api.down = frozenset({"1", "2"})
    assert sorted(api.places(4)) == [0, 3, 503, 503]
    api.clock.advance(round(RENEWED_S * 1000))
    assert sorted(api.places(4)) == [0, 0, 3, 3]


def test_a_key_keeps_its_partition(api: Partly) -> None:
    place = partition_index(b"7", 4)
    assert api.places(1, key="7") == [place]
    api.down = frozenset({str(place)})
    for _ in range(3):
        assert api.places(1, key="7") == [503]
        api.clock.advance(round(RENEWED_S * 1000))
    api.down = frozenset()
    assert api.places(1, key="7") == [place]


def test_a_number_means_the_same_partition(api: Partly) -> None:
    api.down = frozenset({"0"})
    assert api.places(1, partition=3) == [3]
    assert api.places(1, partition=0) == [503]


def test_where_none_takes_anything_the_answer_is_503(api: Partly) -> None:
    api.down = frozenset(map(str, range(4)))
    assert api.places(2) == [503, 503]
    api.clock.advance(round(RENEWED_S * 1000))
    assert api.places(2) == [503, 503]
    api.down = frozenset()
    api.clock.advance(round(RENEWED_S * 1000))
    assert 503 not in api.places(2)
