"""How its producer has sent a message, where that is not the usual way: kept with the record that waits, and used
again when it is delivered.

    delayline-sent = <flag> <sysFlag>

`flag` is the application's own number. Of `sysFlag` the bits for a compressed body and its algorithm are kept:
such a body waits as it came, and is delivered so. A delivered message has no property of that name, but is sent in
that way.
"""

import re
from collections.abc import Sequence

from delayline.records.headers import ID, SENT
from delayline.records.message import Header
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.compression import COMPRESSED
from rocketmq.wire.stored import StoredMessage

KEPT_SYS_FLAGS = COMPRESSED | 0x700
_PROPERTY = re.compile(rf"(?<![^\x02]){SENT.decode()}\x01(-?[0-9]{{1,10}}) ([0-9]{{1,4}})\x02", re.ASCII)
_OURS = ID + b"\x01"
_INT32 = range(-(1 << 31), 1 << 31)


def sent_header(flag: int, sys_flag: int) -> Header | None:
    """None where it was sent in the usual way."""
    kept = sys_flag & KEPT_SYS_FLAGS if sys_flag & COMPRESSED else 0
    return (SENT, b"%d %d" % (flag, kept)) if flag or kept else None


def sent_header_of(message: StoredMessage) -> Header | None:
    """Of a message that was read. In the usual way where we have not delivered it: others' bodies are read
    decompressed. Hot: once per message read."""
    if not message.flag and not message.sys_flag & COMPRESSED:
        return None
    return sent_header(message.flag, message.sys_flag) if _OURS in message.properties else None


def sys_flag_of(member: BatchMember) -> int:
    """With which it has to be delivered: one for all of a batch. Hot: once per message that is written."""
    if SENT.decode() not in member.properties:
        return 0
    found = _PROPERTY.search(member.properties)
    return 0 if found is None else int(found[2]) & KEPT_SYS_FLAGS


def as_sent(members: Sequence[BatchMember]) -> tuple[list[BatchMember], int]:
    """Messages of one batch as consumers are to get them, and their sysFlag."""
    return [_as_sent(member) for member in members], sys_flag_of(members[0])


def _as_sent(member: BatchMember) -> BatchMember:
    if SENT.decode() not in member.properties:
        return member
    found = _PROPERTY.search(member.properties)
    if found is None or int(found[1]) not in _INT32:
        return member
    properties = member.properties[: found.start()] + member.properties[found.end() :]
    return member._replace(properties=properties, flag=int(found[1]))
