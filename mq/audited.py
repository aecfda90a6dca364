"""How far the reconcile job has read the buffers, as it leaves that behind for the workers.

On Kafka, offsets of a consumer group without members, with `{"v":1,"at":<epoch ms>}` as their metadata; on the
embedded queue a file beside it: `{"v":1,"at":<epoch ms>,"positions":{<topic>:{<shard>:<offset>}}}`.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from delayline.errors import UnknownFormat
from delayline.message import Shard
from mq.contract import Audited

VERSION = 1


class _Said(msgspec.Struct, frozen=True):
    v: int
    at: int


class _Positions(_Said, frozen=True):
    positions: Mapping[str, Mapping[str, int]]


def decode_metadata(offset: int, metadata: str) -> Audited:
    """Of a committed offset. The library may have read on behind it, into what is no text of ours. Raises
    UnknownFormat."""
    text, brace, _ = metadata.partition("}")
    return Audited(offset, _decode((text + brace).encode(), _Said).at)


def decode_positions(data: bytes) -> dict[Shard, Audited]:
    """Of the file. Raises UnknownFormat."""
    said = _decode(data, _Positions)
    return {
        Shard(topic, name): Audited(offset, said.at)
        for topic, offsets in said.positions.items()
        for name, offset in offsets.items()
    }


S = TypeVar("S", bound=_Said)


def _decode(data: bytes, kind: type[S]) -> S:
    try:
        said = msgspec.json.decode(data, type=kind)
    except ValueError as error:  # msgspec.DecodeError is one
        raise UnknownFormat(f"the reconcile job's position cannot be read: {error}") from error
    if said.v != VERSION:
        raise UnknownFormat(f"the reconcile job's position has version {said.v}, this program knows {VERSION}")
    return said
