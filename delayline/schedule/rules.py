"""The settings that decide when a record is due, as numbered facts of the log.

Due is a function of the log alone: a record that is read again, by any worker and under any configuration,
must get the due time it got the first time. So every setting that the directive parser looks at stands here; a
change is written into the buffer topic as a rules record, valid for the offsets behind it, and the cursor
carries the rules in force at its low offset.
"""

from functools import cached_property

import msgspec

from delayline.errors import Foreign, UnknownFormat

PARSER_VERSION = 1
"""Raised when `delayline.schedule.verdict` starts to read a directive differently."""

ALIASES = ("rocketmq", "rabbitmq", "etf1")
"""Families of foreign header names that `delayline.schedule.verdict` understands; off unless `delay.aliases` names
them."""

DAY_MS = 86_400_000
HORIZON_MAX_MS = 36_500 * DAY_MS
"""A due time then stays far within the 63 bits that keys and formats have for it."""

LEVELS_MAX = 64
NUMBERS_END = 1 << 32
RETRY_ATTEMPTS_END = 1000
RETRY_ATTEMPTS_MAX = 16
"""RocketMQ 4's `maxReconsumeTimes`: with its levels, four hours and 46 minutes in all."""
RULES_BYTES_MAX = 600
"""Encoded: a cursor carries the rules and has less than 1 KiB (`delayline.buffer.cursor`)."""

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
    """Of a message without a time, in a topic with a `default_delay`; 0: it is not delayed."""
    retry_attempts_max: int = RETRY_ATTEMPTS_MAX
    """How often a consumer group is given a message again; what it then sends back is due at once, among its dead."""

    def same_as(self, other: "Rules") -> bool:
        """Whether both give every record the same due time; the number is only a name."""
        return self == other or self.numbered(other.number) == other

    def numbered(self, number: int) -> "Rules":
        """The same rules under another number."""
        return msgspec.structs.replace(self, number=number)

    def following(self, other: "Rules") -> "Rules":
        """The same rules as the next ones behind `other`. Numbers begin anew, after the last number is used up."""
        return self.numbered((other.number + 1) % NUMBERS_END)

    @cached_property
    def encoded(self) -> bytes:
        """JSON, as it is in rules records, cursors and index checkpoints."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Rules":
        """Raises UnknownFormat for rules that a later version of this program may follow, and Foreign for those that
        none does."""
        if len(data) > RULES_BYTES_MAX:
            raise Foreign(f"rules of {len(data)} bytes: no cursor has room for them")
        try:
            parser = _PARSER.decode(data).parser
            if parser > PARSER_VERSION:
                raise UnknownFormat(f"rules of parser version {parser}, this program has {PARSER_VERSION}")
            rules = Rules(**msgspec.structs.asdict(_WRITTEN.decode(data)))
        except (ValueError, RecursionError) as error:  # msgspec.DecodeError and its UnicodeDecodeError are the first
            raise Foreign(f"rules cannot be read: {error}") from error
        if trouble := rules._trouble():
            raise Foreign(f"rules that cannot be followed: {trouble}")
        if later := sorted(set(rules.aliases) - set(ALIASES)):
            raise UnknownFormat(f"rules with the alias families {', '.join(later)}, which this program does not know")
        return rules

    def _trouble(self) -> str:
        """Which field no setting gives (`delayline.config`), and no version has written."""
        sound = {
            "number": 0 <= self.number < NUMBERS_END,
            "parser": self.parser == PARSER_VERSION,
            "levels_ms": 0 < len(self.levels_ms) <= LEVELS_MAX
            and all(0 < one <= HORIZON_MAX_MS for one in self.levels_ms),
            "aliases": len(set(self.aliases)) == len(self.aliases),
            "default_delay_ms": 0 <= self.default_delay_ms <= HORIZON_MAX_MS,
            "retry_attempts_max": 0 <= self.retry_attempts_max <= RETRY_ATTEMPTS_END,
        }
        return ", ".join(field for field, is_sound in sound.items() if not is_sound)


class _Parser(msgspec.Struct, frozen=True):
    """All that is known of rules of a later parser."""

    parser: int


class _Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules of this parser as they are written: what every version has written is there, and nothing else. A version
    that adds a field raises the parser."""

    number: int
    parser: int
    levels_ms: tuple[int, ...]
    aliases: tuple[str, ...]
    default_delay_ms: int = 0
    retry_attempts_max: int = RETRY_ATTEMPTS_MAX


_PARSER = msgspec.json.Decoder(_Parser)
_WRITTEN = msgspec.json.Decoder(_Written)
DEFAULT_RULES = Rules()
