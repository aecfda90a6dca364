"""Plain messages sealed many at a time: what `record.seal` does to one, by column.

A loop over records costs 0.5 us each for its bytecode alone; here the loops are those of `map`, `zip` and `join`.
What records share is made once: the header of the id up to the shard's name (by the length of what follows it) and
the header of the due time. In each message only `<offset>.<due_ms>`, its *place*, is its own.
"""

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from delayline.records.headers import ACCEPTED, DUE, ID
from delayline.records.message import Shard
from delayline.records.record import accepted_at_ms_of, encode_header, encode_varint

_PACKED = itemgetter(slice(1, None))  # of a plain index value, which begins with a zero
_ACCEPTED = encode_varint(len(ACCEPTED)) + ACCEPTED + encode_varint(13)
_ACCEPTED_HEADER = itemgetter(slice(-len(_ACCEPTED) - 13, None))
_ID = encode_varint(len(ID)) + ID


class Sealer:
    """For one shard."""

    def __init__(self, shard: Shard) -> None:
        self._openings = _Openings(f"{shard.topic}.{shard.partition}.".encode())

    def seal(
        self, offsets: Sequence[int], dues_ms: Sequence[int], values: Sequence[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """The sealed bodies of plain index values, and their places. Hot: 0.3 us per delivered message (see
        bench/floors.py)."""
        closings = _Closings()
        places = list(map(b".".join, zip(_numbers(offsets), _numbers(dues_ms), strict=True)))
        openings = map(self._openings.__getitem__, map(len, places))
        ends = map(closings.__getitem__, dues_ms)
        return list(map(b"".join, zip(map(_PACKED, values), openings, places, ends, strict=True))), places


class _Openings(dict[int, bytes]):
    """The id's header up to the place, by the place's length."""

    def __init__(self, prefix: bytes) -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, length: int) -> bytes:
        opening = self[length] = _ID + encode_varint(len(self._prefix) + length) + self._prefix
        return opening


class _Closings(dict[int, bytes]):
    """The header of a due time."""

    def __missing__(self, due_ms: int) -> bytes:
        closing = self[due_ms] = encode_header(DUE, b"%d" % due_ms)
        return closing


def _numbers(column: Sequence[int]) -> list[bytes]:
    """In digits. The encoder writes a list of numbers in a tenth of the time that `%d` takes for them."""
    return msgspec.json.encode(column)[1:-1].split(b",")


def accepted_column(values: Sequence[bytes]) -> bytes:
    """When the messages of plain index values were accepted (epoch ms), as JSON without its brackets.

    Hot: each value ends with that header, so one search finds them all, and nothing is ever read as a number. The
    header's first 20 bytes stand nowhere else in the tails of packed records (a tail holds one header, and digits are
    no part of them); where they are found less often, a moment has not the usual 13 digits."""
    column = b"".join(map(_ACCEPTED_HEADER, values)).replace(_ACCEPTED, b",")[1:]
    if len(column) == 14 * len(values) - 1:
        return column
    return b",".join(b"%d" % accepted_at_ms_of(_PACKED(value)) for value in values)
