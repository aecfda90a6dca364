"""Where a list goes on, as text for the client: it fits the query that it came with, and no other."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Annotated

import msgspec

from api.http.problems import INVALID_REQUEST, refused
from delayline.questions.inquiry import LAST_MS, LAST_OFFSET, Place
from delayline.records.message import Shard

_Rank = Annotated[int, msgspec.Meta(ge=-LAST_MS, le=LAST_MS)]
_Offset = Annotated[int, msgspec.Meta(ge=-1, le=LAST_OFFSET)]


class _Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    query: bytes
    rank: _Rank
    topic: str
    partition: str
    offset: _Offset


_DECODER = msgspec.msgpack.Decoder(_Token)


def encode(place: Place, query: object) -> str:
    """`query` is everything that decides what is in the list."""
    token = _Token(_digest(query), place.rank, *place.shard, place.offset)
    return urlsafe_b64encode(msgspec.msgpack.encode(token)).decode().rstrip("=")


def decode(text: str, query: object) -> Place:
    """Raises Refusal."""
    try:
        token = _DECODER.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError as error:  # binascii.Error and msgspec.DecodeError are some
        raise _refused("it is not a token of this list") from error
    if token.query != _digest(query):
        raise _refused("it belongs to a list with other parameters")
    return Place(token.rank, Shard(token.topic, token.partition), token.offset)


def _digest(query: object) -> bytes:
    return blake2b(msgspec.msgpack.encode(query), digest_size=8).digest()


def _refused(detail: str) -> Exception:
    return refused(INVALID_REQUEST, "?page_token", "invalid-value", f"`page_token`: {detail}")
