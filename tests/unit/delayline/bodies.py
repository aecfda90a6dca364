"""Records as hypothesis makes them."""

from hypothesis import strategies as st

from delayline.records.headers import ECHOED, RESERVED
from delayline.records.message import Header
from delayline.records.record import encode_varint
from delayline.schedule.directives import directive_names

NAMES = st.one_of(
    st.sampled_from(sorted(directive_names(()) | ECHOED | RESERVED | {b"trace", b""})), st.binary(max_size=70)
)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=80)), max_size=6)
PARTS = st.none() | st.binary(max_size=80)


def plain(headers: list[Header]) -> list[Header]:
    """Without those that mean something to us."""
    ours = directive_names(()) | ECHOED | RESERVED
    return [header for header in headers if header[0] not in ours]


_VARINTS = st.integers(-3, 200).map(encode_varint) | st.just(b"\x80" * 12)
BYTES = st.one_of(
    st.binary(max_size=60),
    st.lists(st.one_of(_VARINTS, NAMES, st.binary(max_size=4)), max_size=10).map(b"".join),
)
"""Bytes that are hardly ever a record, but often nearly."""
