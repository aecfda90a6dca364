"""mq.kafka.library: what the library says of a log that it cannot read, without a broker."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from delayline.clock import SystemClock
from mq.kafka.library import LibraryReader
from mq.kafka.reading import At, Gone, Part, Read, Spoilt
from mq.kafka.settings import KafkaSettings

AT = At("orders", 0)


@dataclass
class Said:
    """A message as the library hands it out; `what` is an offset, or an error with one."""

    at: int
    code: int | None = None

    def topic(self) -> str:
        return AT.topic

    def partition(self) -> int:
        return AT.partition

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def timestamp(self) -> tuple[int, int]:
        return 2, 5

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        return None


@dataclass
class Log:
    """A consumer of a partition that ends at `end`."""

    said: list[Said]
    end: int

    def incremental_assign(self, _: Any) -> None: ...

    def incremental_unassign(self, _: Any) -> None: ...

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, self.end

    def poll(self, _: float) -> Said | None:
        return self.said.pop(0) if self.said else None

    def consume(self, *_: Any) -> list[Said]:
        said, self.said = self.said, []
        return said

    def close(self) -> None: ...


def read(*said: Said, end: int = 10) -> list[Read]:
    reader = LibraryReader(KafkaSettings(bootstrap_servers="127.0.0.1:1"), SystemClock())
    reader._consumer.close()
    reader._consumer = cast(Any, Log(list(said), end))
    reader.assign(AT, 3)
    return list(reader.read(100, 0.0))


def summary(found: list[Read]) -> list[object]:
    return [
        ([row[0] for row in one.records], one.next_offset) if isinstance(one, Part) else type(one) for one in found
    ]


def test_records_come_out_at_their_offsets_with_holes_where_there_are_some() -> None:
    assert summary(read(Said(3), Said(6), Said(9))) == [([3, 6, 9], 10)]


@pytest.mark.parametrize("wrong", [2, 4, 10, 77, -1])
def test_a_record_that_cannot_stand_where_it_says_stops_reading_behind_what_was_read(wrong: int) -> None:
    assert summary(read(Said(3), Said(4), Said(wrong), Said(6))) == [([3, 4], 5), Spoilt]


@pytest.mark.parametrize("code", [KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED])
def test_a_batch_that_the_library_cannot_take_apart_stops_reading_and_is_not_passed_over(code: int) -> None:
    found = read(Said(3), Said(4, code), Said(6))
    assert summary(found) == [([3], 4), Spoilt]
    assert cast(Spoilt, found[1]).detail.startswith("at offset 4: ")


def test_an_offset_that_is_gone_is_told_behind_what_was_read() -> None:
    assert summary(read(Said(3), Said(4, KafkaError._AUTO_OFFSET_RESET))) == [([3], 4), Gone]


def test_where_the_end_is_not_known_no_offset_is_too_far() -> None:
    assert summary(read(Said(3), Said(77), end=0)) == [([3, 77], 78)]
