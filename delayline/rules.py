"""The settings that decide when a record is due, as numbered facts of the log.

Due is a function of the log alone: a record that is read again, by whoever and under whatever configuration,
must get the due time it got the first time. So every setting that the directive parser looks at stands here; a
change is written into the buffer topic as a rules record, valid for the offsets behind it, and the cursor
carries the rules in force at its low offset.
"""

from functools import cached_property

import msgspec

from delayline.errors import UnknownFormat

PARSER_VERSION = 1
"""Raised when `delayline.schedule` starts to read a directive differently."""

ALIASES = ("rocketmq", "rabbitmq", "etf1")
"""Families of foreign header names that `delayline.schedule` understands; off unless `delay.aliases` names them."""

DAY_MS = 86_400_000
HORIZON_MAX_MS = 36_500 * DAY_MS
"""A due time then stays far within the 63 bits that keys and formats have for it."""

LEVELS_MAX = 64
RETRY_ATTEMPTS_MAX = 16
"""RocketMQ 4's `maxReconsumeTimes`: with its levels, four hours and 46 minutes in all."""
RULES_BYTES_MAX = 600
"""Encoded: a cursor carries the rules and has less than 1 KiB (`delayline.cursor`)."""

DEFAULT_LEVELS_MS = (
    *(1000 * s for s in (1, 5, 10, 30)),
    *(60_000 * m for m in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    3_600_000,
    7_200_000,
)
"""RocketMQ 4's `messageDelayLevel`: 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h."""


class Rules(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything beside a record's own bytes and append time that its due time depends on."""

    number: int = 0
    parser: int = PARSER_VERSION
    levels_ms: tuple[int, ...] = DEFAULT_LEVELS_MS
    aliases: tuple[str, ...] = ()
    default_delay_ms: int = 0
    """Of a message that says nothing about time, in a topic with a `default_delay`; 0: it is not delayed."""
    retry_attempts_max: int = RETRY_ATTEMPTS_MAX
    """How often a consumer group is given a message again; what it then sends back is due at once, among its dead."""

    def same_as(self, other: "Rules") -> bool:
        """Whether both give every record the same due time; the number is only a name."""
        return self is other or self.numbered(other.number) == other

    def numbered(self, number: int) -> "Rules":
        """The same rules under another number."""
        return msgspec.structs.replace(self, number=number)

    @cached_property
    def encoded(self) -> bytes:
        """JSON, as it stands in rules records, cursors and index checkpoints."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Rules":
        """Raises UnknownFormat for rules that this program cannot follow."""
        try:
            rules = _DECODER.decode(data)
        except ValueError as error:  # msgspec.DecodeError is one, and so is its UnicodeDecodeError
            raise UnknownFormat(f"rules cannot be read: {error}") from error
        if rules.parser != PARSER_VERSION:
            raise UnknownFormat(f"rules of parser version {rules.parser}, this program has {PARSER_VERSION}")
        if not rules._can_be_followed():
            raise UnknownFormat("rules with a time or an alias family that this program cannot follow")
        return rules

    def _can_be_followed(self) -> bool:
        known = bool(self.levels_ms) and set(self.aliases) <= set(ALIASES)
        known = known and 0 <= self.default_delay_ms <= HORIZON_MAX_MS and self.retry_attempts_max >= 0
        return known and all(0 < level_ms <= HORIZON_MAX_MS for level_ms in self.levels_ms)


_DECODER = msgspec.json.Decoder(Rules)
DEFAULT_RULES = Rules()
