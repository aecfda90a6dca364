"""How far the reconcile job has read the buffers, as it leaves that behind for the workers.

On Kafka, offsets of a consumer group without members, with `{"v":1,"at":<epoch ms>}` as their metadata, of the audit
topic too; on the embedded queue a file beside it: `{"v":1,"at":<epoch ms>,"positions":{<topic>:{<shard>:<offset>}}}`.
A buffer that is not named is new since the last run: nothing of it has been read.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from delayline.errors import UnknownFormat
from delayline.records.message import Shard
from mq.contract import Audited

VERSION = 1


class _Head(msgspec.Struct, frozen=True):
    v: int
    at: int


class _Positions(_Head, frozen=True):
    positions: Mapping[str, Mapping[str, int]]


def decode_metadata(offset: int, metadata: str) -> Audited:
    """Of a committed offset. The library may have read on behind it, into what is no text of ours. Raises
    UnknownFormat."""
    text, brace, _ = metadata.partition("}")
    return Audited(offset, _decode((text + brace).encode(), _Head).at)


class Positions(NamedTuple):
    """By shard; `at_ms`: of the last run, None where there was none."""

    by_shard: Mapping[Shard, Audited] = {}
    at_ms: int | None = None

    def of(self, shard: Shard) -> Audited | None:
        return self.by_shard.get(shard, None if self.at_ms is None else Audited(0, self.at_ms))


def decode_positions(data: bytes) -> Positions:
    """Of the file. Raises UnknownFormat."""
    document = _decode(data, _Positions)
    by_shard = {
        Shard(topic, name): Audited(offset, document.at)
        for topic, offsets in document.positions.items()
        for name, offset in offsets.items()
    }
    return Positions(by_shard, document.at)


S = TypeVar("S", bound=_Head)


def _decode(data: bytes, kind: type[S]) -> S:
    try:
        document = msgspec.json.decode(data, type=kind)
    except ValueError as error:  # msgspec.DecodeError is one
        raise UnknownFormat(f"the reconcile job's position cannot be read: {error}") from error
    if document.v != VERSION:
        raise UnknownFormat(f"the reconcile job's position has version {document.v}, this program knows {VERSION}")
    return document
