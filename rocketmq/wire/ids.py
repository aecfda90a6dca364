"""Ids: where a message is stored, which one it is, and what a recall names.

    offset message id   hex of IPv4 or IPv6 address | int32 port | int64 offset in the commit log
    unique key          hex of address | int16 process | int32 of the class loader | int32 ms of the month
                        | int16 counter
    recall handle       URL-safe Base64 of `v1 topic broker timestamp uniqueKey`

(`MessageDecoder.createMessageId`, `MessageClientIDSetter`, `producer.RecallMessageHandle`)
"""

import base64
import binascii
import ipaddress
import os
import struct
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple

from rocketmq.clock import RocketmqClock
from rocketmq.errors import InvalidRequest, Malformed

_PLACE = struct.Struct(">iq")
_IP_BYTES = (4, 16)


class StoredAt(NamedTuple):
    """A broker's address and an offset in its commit log."""

    host: str
    port: int
    offset: int


def host_text(packed: bytes | memoryview) -> str:
    """Of 4 or 16 bytes."""
    return str(ipaddress.ip_address(bytes(packed)))


def encode_message_id(place: StoredAt) -> str:
    """Raises InvalidRequest where the host is no IP address."""
    try:
        packed = ipaddress.ip_address(place.host).packed
        return (packed + _PLACE.pack(place.port, place.offset)).hex().upper()
    except (ValueError, struct.error) as error:
        raise InvalidRequest(f"no place of a message: {place}: {error}") from error


def decode_message_id(text: str) -> StoredAt:
    """Raises Malformed."""
    try:
        data = binascii.unhexlify(text)
    except ValueError as error:
        raise Malformed(f"a message id that is not hexadecimal: {error}") from error
    ip_bytes = len(data) - _PLACE.size
    if ip_bytes not in _IP_BYTES:
        raise Malformed(f"a message id of {len(text)} characters; there are 32 or 56")
    return StoredAt(host_text(data[:ip_bytes]), *_PLACE.unpack_from(data, ip_bytes))


class UniqueKeys:
    """Keys as clients give each message one. Ten bytes distinguish processes: RocketMQ's readers take time and
    counter from the others, and nothing from these but for display. For any number of threads."""

    def __init__(self, clock: RocketmqClock) -> None:
        self._clock = clock
        self._prefix = (os.urandom(4) + struct.pack(">H", os.getpid() & 0xFFFF) + os.urandom(4)).hex().upper()
        self._numbers = count()
        self._month_ends_ms = 0
        self._month_ms = 0

    def next(self) -> str:
        """32 characters, unlike any other of this object within a month, up to 65,536 a millisecond."""
        now_ms = self._clock.now_ms()
        if not self._month_ms <= now_ms < self._month_ends_ms:
            self._month_ms, self._month_ends_ms = _month_of(now_ms)
        since_ms = now_ms - self._month_ms & 0xFFFF_FFFF
        return f"{self._prefix}{since_ms:08X}{next(self._numbers) & 0xFFFF:04X}"


def _month_of(now_ms: int) -> tuple[int, int]:
    start = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return int(start.timestamp() * 1000), int(after.timestamp() * 1000)


class RecallHandle(NamedTuple):
    """What a producer got for a timer message, to recall it with. `timestamp_ms` is a millisecond behind the due
    time. `more` are parts behind those that RocketMQ has and passes over."""

    topic: str
    broker: str
    timestamp_ms: int
    unique_key: str
    more: tuple[str, ...] = ()

    def encode(self) -> str:
        """Raises InvalidRequest for names with a space, which separates the parts."""
        parts = ("v1", self.topic, self.broker, str(self.timestamp_ms), self.unique_key, *self.more)
        text = " ".join(parts)
        if not all(parts) or text.count(" ") != len(parts) - 1:
            raise InvalidRequest(f"a recall handle has no empty parts and no spaces in them: {parts}")
        return base64.urlsafe_b64encode(text.encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Raises Malformed. Java takes handles with and without the Base64 padding."""
    try:
        raw = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
        parts = raw.decode().split(" ")
    except (ValueError, UnicodeError) as error:
        raise Malformed(f"a recall handle that cannot be read: {error}") from error
    if parts[0] != "v1" or len(parts) < 5 or not (parts[3].isascii() and parts[3].isdigit() and len(parts[3]) < 20):
        raise Malformed("a recall handle of another form than 'v1 topic broker timestamp key'")
    return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4], tuple(parts[5:]))
