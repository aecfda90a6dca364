"""Values of the protocol, for properties."""

from hypothesis import strategies as st

from rocketmq.wire.batch import BatchMember, member
from rocketmq.wire.command import Command, Encoding, Language
from rocketmq.wire.stored import StoredMessage, SysFlag

INT16, INT32, INT64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=10)
PROPERTIES = st.dictionaries(NAMES, NAMES, max_size=5)
BODIES = st.binary(max_size=100)
IPS_V4, IPS_V6 = st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)


@st.composite
def commands(draw: st.DrawFn) -> Command:
    encoding = draw(st.sampled_from(Encoding))
    return Command(
        draw(INT16 if encoding is Encoding.ROCKETMQ else INT32),
        draw(st.dictionaries(TEXT, TEXT, max_size=5)),
        draw(BODIES),
        draw(INT32),
        draw(INT32),
        draw(TEXT),
        draw(st.sampled_from(Language)),
        draw(INT16),
        encoding,
    )


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    flags = draw(st.sampled_from([0, 0x2, 0x4, 0x8, 0xC, 0xC0]))
    born_v6, store_v6 = draw(st.booleans()), draw(st.booleans())
    flags |= (SysFlag.BORN_HOST_V6 if born_v6 else 0) | (SysFlag.STORE_HOST_V6 if store_v6 else 0)
    return StoredMessage(
        draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)),
        draw(INT32),
        draw(INT64),
        draw(INT64),
        draw(BODIES),
        draw(st.binary(max_size=50)),
        draw(INT32),
        int(flags),
        draw(INT64),
        draw(IPS_V6 if born_v6 else IPS_V4),
        draw(INT32),
        draw(INT64),
        draw(IPS_V6 if store_v6 else IPS_V4),
        draw(INT32),
        draw(INT32),
        draw(INT64),
        0,
    )


@st.composite
def members(draw: st.DrawFn) -> BatchMember:
    return member(draw(BODIES), draw(PROPERTIES), draw(INT32))
