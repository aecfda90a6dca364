"""Properties beside the user's, of messages that consumers read: those without which RocketMQ treats them as none of
its own clients' would be treated. They are no part of the record.

    UNIQ_KEY       the message's id (`MessageExt.getMsgId`), by which tools find it. Without one a message has another
                   id in each attempt of a consumer group, and in its dead letters
    TIMER_OUT_MS   beside a user's TIMER_*: else a broker that stores the message again, as a group's dead letter or
                   because what was popped was not acknowledged, would delay it by them
                   (`HookUtils.checkIfTimerMessage`)
    MSG_REGION     the default of brokers, which add theirs to single messages, and we send batches. Java's consumers
                   write no trace of a message without one

The first two begin with zeros as those of no client and no broker do (an address 0.0.0.0, a number with a leading
zero); by that a reader knows them. The third is left out where a record is read, no matter who has added it: it is
added again.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b

from rocketmq.wire.properties import DEFAULT_REGION, MSG_REGION

UNIQ_KEY, TIMER_OUT_MS, REGION = b"UNIQ_KEY", b"TIMER_OUT_MS", MSG_REGION.encode()
NAMES = frozenset({UNIQ_KEY, TIMER_OUT_MS, REGION})

_REGION = DEFAULT_REGION.encode()
_BEGINS = {UNIQ_KEY: b"00000000", TIMER_OUT_MS: b"0", REGION: _REGION}
_TIMERS = frozenset({b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS"})
_DAY_MS = 86_400_000


def is_added(name: bytes, value: bytes | None) -> bool:
    """Hot: once per property that is read."""
    begins = _BEGINS.get(name)
    if begins is None or value is None or not value.startswith(begins):
        return False
    return name != REGION or value == _REGION


def added(headers: Mapping[bytes, bytes | None], name: bytes, at_ms: int) -> bytes:
    """What a message with these headers gets, as properties. `name` is its alone, and `at_ms` no later than it is
    stored. Hot: once per message that is delivered."""
    text = b"" if headers.get(REGION) else b"%s\x01%s\x02" % (REGION, _REGION)
    if not headers.get(UNIQ_KEY):
        text += b"UNIQ_KEY\x01%s\x02" % unique_key(name, at_ms)
    if not _TIMERS.isdisjoint(headers) and TIMER_OUT_MS not in headers:
        text += b"TIMER_OUT_MS\x010%d\x02" % at_ms
    return text


def unique_key(name: bytes, at_ms: int) -> bytes:
    """As Java's (`MessageClientIDSetter`), which is

        address (4 bytes) | process (2) | class loader (4) | ms since the month's beginning (4) | counter (2)

    without the address, and with a digest of `name` for process, class loader and counter: the same for the same
    message in each delivery. Tools that look for an id begin at its time, by the month's beginning where they
    are (`getNearlyTimeFromID`): half a day earlier is early enough in all time zones.
    """
    digest = blake2b(name, digest_size=8).hexdigest().upper().encode()
    early_ms = at_ms - _DAY_MS // 2
    since_ms = early_ms - _month_ms(early_ms // _DAY_MS)
    return b"00000000%s%08X%s" % (digest[:12], since_ms, digest[12:])


@lru_cache(64)
def _month_ms(day: int) -> int:
    """The beginning of the month of this day, both since 1970, in UTC."""
    first = datetime.fromtimestamp(day * 86_400, UTC).replace(day=1)
    return round(first.timestamp()) * 1000
