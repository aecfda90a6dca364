"""A batch of a buffer topic that cannot be taken apart, as one record in its place.

A queue may hold what a producer has sent and its broker has stored without being able to read it: a compressed batch
that unpacks to more than anything should, or records that do not fill it. Reading on behind such a batch is safe,
because what it holds is a function of its bytes, which the log never changes: every reader sets it aside, now and on
replay, and finds one record at its first offset and none at the others. That record goes to the dead letters, with
the bytes of the batch as they are in the log.

The type of its body marks it as set aside, within the process that reads it. A record of a log is never taken for
one, whatever its headers are.
"""

from delayline.records.headers import SET_ASIDE
from delayline.records.record import encode_body

MALFORMED_BATCH = "malformed-batch"
"""Code of the dead letter, and reason in the outcome row."""

RAW_BYTES_MAX = 256 << 10
"""The default: a quarter of what a topic takes by default as one record, so that the dead letter always fits."""


class SetAside(bytes):
    """The body of the record that stands for a batch, with a description of it."""

    why: str


def encode_set_aside(first: int, last: int, raw: bytes, raw_bytes_max: int, why: str) -> SetAside:
    """The record for the batch with these offsets. Beyond `raw_bytes_max` its bytes stay in the log alone."""
    kept = raw if len(raw) <= raw_bytes_max else None
    note = "" if kept is not None else f", more than {raw_bytes_max}, not copied"
    text = f"offsets {first} to {last}, {len(raw)} bytes{note}: {why}"
    body = SetAside(encode_body(None, kept, [(SET_ASIDE, text.encode())]))
    body.why = text
    return body
