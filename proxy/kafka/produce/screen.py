"""What the records of a batch ask for: which of them are delayed, and whether the batch can be taken at all.

The verdict on a record is `delayline.schedule.verdict.read_directives`', as everywhere. A batch is taken or refused
as a whole, as a broker does it; the errors name the records that are at fault (KIP-467).
"""

from collections.abc import Set
from dataclasses import dataclass, field
from functools import lru_cache

from delayline.access.ledger import Account
from delayline.access.quotas import Breach, Limit, Quota
from delayline.records.headers import ATTEMPT, RESERVED
from delayline.schedule.directives import directive_names
from delayline.schedule.lookalikes import lookalike, lookalikes
from delayline.schedule.verdict import Immediate, Invalid, Op, Schedule, Verdict, read_directives
from kafkawire.batch.compression import Allowance
from kafkawire.batch.head import (
    CODEC_BITS,
    HEAD_BYTES,
    KNOWN_ATTRIBUTES,
    NO_PRODUCER,
    Batch,
    Buffer,
    Codec,
    Head,
    head_at,
)
from kafkawire.protocol.errors import BatchError, ErrorCode, MalformedBatch, UnsupportedCompression
from kafkawire.protocol.messages.produce import RecordError
from proxy.kafka.produce.scan import Directives, Parts, Scan, scan_batch
from proxy.screening import NameScreen

ZSTD_SINCE = 7
"""The version of Produce (KIP-110)."""

RECORD_ERRORS_MAX = 100
"""Reported of one batch; clients fail all of its records anyway."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a batch is not taken. `message` is for the people behind the producer."""

    code: ErrorCode
    message: str
    record_errors: list[RecordError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of a topic whose messages are delayed: the largest delayed record (bytes of its body), the
    largest batch that its buffer takes, and whether it is compacted."""

    record_bytes_max: int
    batch_bytes_max: int
    compacted: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A batch that was looked at. `delayed` are places in it; `adds` is how many of them will wait, and are no
    operations on what does; `repeats` how many of those are delivered again and again; `groups` are consumer
    groups that get some again; `breached` is a limit of the sender's quota that a record is beyond."""

    scan: Scan
    delayed: Set[int]
    refusal: Refusal | None
    adds: int = 0
    repeats: int = 0
    groups: Set[str] = frozenset()
    breached: Limit | None = None


_HINTS = (b"elay", b"ELAY", b"eliver-", b"ELIVER-")
"""Of names that are like a directive: every record with `Delay`, `DELAY-MS` or `Deliver-At` holds one."""


@lru_cache
def directives_of(aliases: tuple[str, ...]) -> Directives:
    """What is looked for: directives, what is like them, and Delayline's own headers."""
    return Directives(
        directive_names(aliases) | RESERVED,
        {ATTEMPT},
        is_like=lambda name: lookalike(name, aliases) is not None,
        hints=_HINTS,
    )


class Screen(NameScreen):
    """Of batches."""

    def look(
        self,
        topic: str,
        batch: Batch,
        now_ms: int,
        allowance: Allowance | None = None,
        account: Account | None = None,
    ) -> Seen:
        """Which records are delayed is a function of their topic and bytes; `now_ms` only bounds how far ahead they
        may be due, and `account` the sender. Raises BatchError."""
        rules = self._rules_for(topic)
        every = rules.default_delay_ms > 0
        scan = scan_batch(batch, directives_of(rules.aliases), every=every, allowance=allowance)
        delayed: set[int] = set()
        errors: list[tuple[int, str]] = []
        groups: set[str] = set()
        adds = repeats = 0
        bounds = account.quota if account is not None and account.quota.bounds_schedules else None
        breached: Limit | None = None
        for found in scan.found:
            like = lookalikes([name for name, _ in found.directives], rules.aliases)
            if wrong := self._misnamed(topic, like):
                errors.append((found.place, wrong))
                continue
            verdict = read_directives(found.directives, now_ms, rules, self._horizon_max_ms)
            breach = None if bounds is None else breach_of(bounds, verdict, now_ms)
            if breach is not None and account is not None:
                breached = breach.limit
                errors.append((found.place, account.sentence(breach)))
            elif isinstance(verdict, Invalid):
                errors.append((found.place, f"{verdict.directive}: {verdict.detail}"))
            elif not isinstance(verdict, Immediate):
                delayed.add(found.place)
                if isinstance(verdict, Schedule):
                    adds += 1
                    repeats += verdict.repeats
                    if verdict.retries is not None:
                        groups.add(verdict.retries.group)
        if delayed:
            scan.batch.check()
            check_head(batch.head)
        return Seen(scan, delayed, invalid(errors), adds, repeats, groups, breached)

    def look_at_legacy(self, topic: str) -> Refusal | None:
        """Message sets older than headers hold no directives. Nor is there a way to delay them all the same."""
        if not self._rules_for(topic).default_delay_ms:
            return None
        text = "the topic has a default delay, which needs the record format of Kafka 0.11"
        return Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, text)


def breach_of(quota: Quota, verdict: Verdict, now_ms: int) -> Breach | None:
    """What a record asks for beyond the quota. The waits of a retry are the operator's choice."""
    if isinstance(verdict, Schedule) and verdict.retries is None:
        return quota.breach(verdict.due_ms - now_ms, verdict.times)
    if isinstance(verdict, Op) and verdict.due_ms is not None:
        return quota.breach(verdict.due_ms - now_ms, 1)
    return None


def invalid(errors: list[tuple[int, str]]) -> Refusal | None:
    """Of a batch with these records at fault, by place, and what is wrong with each; None where there are none."""
    if not errors:
        return None
    place, text = errors[0]
    reported = [RecordError(*error) for error in errors[:RECORD_ERRORS_MAX]]
    return Refusal(ErrorCode.INVALID_RECORD, f"record {place}: {text}", reported)


def check_head(head: Head) -> None:
    """What a broker asks of a batch's head (LogValidator.validateBatch), and what it would ask of the target topic
    but not of a buffer, whose times are its own. Raises MalformedBatch."""
    if unknown := head.attributes & ~KNOWN_ATTRIBUTES:
        raise MalformedBatch(f"unknown attributes {unknown & 0xFFFF:#x}")
    if head.is_append_time:
        raise MalformedBatch("the timestamp type LogAppendTime is the broker's to set")
    if head.producer_id != NO_PRODUCER and (head.base_sequence < 0 or head.producer_epoch < 0):
        raise MalformedBatch(
            f"producer {head.producer_id} with epoch {head.producer_epoch} and sequence {head.base_sequence}"
        )
    if head.is_transactional and head.producer_id == NO_PRODUCER:
        raise MalformedBatch("a transactional batch without a producer id")


def check_compression(head: Head, version: int) -> None:
    """As a broker does (ProduceRequest.validateRecords). Raises UnsupportedCompression."""
    if head.codec is Codec.ZSTD and version < ZSTD_SINCE:
        raise UnsupportedCompression(f"zstd needs Produce {ZSTD_SINCE}, this one is version {version}")


def fits(seen: Seen, parts: Parts, target: Target) -> Refusal | None:
    """What a delayed record never meets on its way: the target topic's own checks."""
    found = [one for one in seen.scan.found if one.place in seen.delayed]
    if target.compacted and (keyless := [one.place for one in found if not one.has_key]):
        text = "a delayed record for a compacted topic needs a key"
        return invalid([(place, text) for place in keyless])
    if largest := max((one.size for one in found if one.size > target.record_bytes_max), default=0):
        return Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a delayed record of {largest} bytes; with the headers that it gets, {target.record_bytes_max} fit",
        )
    delayed = parts.delayed
    if delayed is not None and delayed.head.length > target.batch_bytes_max:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"{delayed.head.length} bytes of delayed records in one batch")
    return None


def refusal_of(error: BatchError) -> Refusal:
    """A batch that cannot be read."""
    return Refusal(error.code, str(error))


def compressed_bytes(records: Buffer | None) -> int:
    """0 for what is not compressed, or no batch at all."""
    if records is None or len(records) < HEAD_BYTES or not head_at(records, 0).attributes & CODEC_BITS:
        return 0
    return len(records)
