"""Where the records of a batch stand, `varint length | attributes | varint timestampDelta | varint offsetDelta |
body`: the body being the one of `delayline.records.record` (KIP-98)."""

from delayline.errors import MalformedRecord
from delayline.records.record import read_varint
from kafkawire.protocol.errors import BatchTooLarge, MalformedBatch

RECORDS_MAX = 250_000
"""Records of one batch that is walked: 30 MB of positions. The error makes Java's producer halve the batch."""

Span = tuple[int, int, int, int]
"""Where the parts of a record stand: attributes, offset delta, body, and its end. (Plain, because there are many.)
Its length stands before the attributes, behind the end of the record before."""


def walk(plain: bytes, count: int, records_max: int = RECORDS_MAX) -> list[Span]:
    """Where `count` records are in `plain`. Raises MalformedBatch when they do not fill it exactly.

    Hot: once per record of a batch in which a name occurs. Varints of one and two bytes are read in line.
    """
    # Before the walk: a lying count would otherwise cost its whole time, whatever the data holds.
    if count > records_max:
        raise BatchTooLarge(f"more than {records_max} records in one batch")
    spans: list[Span] = []
    at = 0
    size = len(plain)
    try:
        for _ in range(count):
            length = plain[at]
            if length < 0x80:
                at += 1
            elif plain[at + 1] < 0x80:
                length = length & 0x7F | plain[at + 1] << 7
                at += 2
            else:
                exact, at = read_varint(plain, at)
                length = exact << 1
            end = at + (length >> 1)
            delta_at = at + 2 if plain[at + 1] < 0x80 else _behind_varint(plain, at + 1)
            body_at = delta_at + 1 if plain[delta_at] < 0x80 else _behind_varint(plain, delta_at)
            # Zigzag: odd numbers are negative lengths.
            if length & 1 or length < 0 or not body_at <= end <= size:
                raise MalformedBatch("a record that does not fit")
            spans.append((at, delta_at, body_at, end))
            at = end
    except (IndexError, MalformedRecord):
        raise MalformedBatch("the records end too early") from None
    # Records behind the last one that is counted would pass unseen, with directives that nothing honours.
    if at != size:
        raise MalformedBatch("bytes behind the last record")
    return spans


def _behind_varint(plain: bytes, at: int) -> int:
    return at + 2 if plain[at + 1] < 0x80 else read_varint(plain, at)[1]
