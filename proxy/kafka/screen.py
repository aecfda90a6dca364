"""What the records of a batch ask for: which of them are delayed, and whether the batch can be taken at all.

The verdict on a record is `delayline.schedule.read_directives`', as everywhere. A batch is taken or refused as a
whole, as a broker does it; the errors name the records that are at fault (KIP-467).
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import lru_cache

from delayline.directives import directive_names
from delayline.headers import ATTEMPT, RESERVED
from delayline.rules import Rules
from delayline.schedule import Immediate, Invalid, Schedule, read_directives
from mq.kafka.batch.head import Batch
from mq.kafka.wire.errors import BatchError, ErrorCode
from mq.kafka.wire.messages.produce import RecordError
from proxy.kafka.scan import Directives, Parts, Scan, scan_batch

RECORD_ERRORS_MAX = 100
"""Told of one batch; clients fail all of its records anyway."""


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
    """A batch that was looked at. `delayed` are places in it; `adds` where one of them will wait, and is no operation
    on what does."""

    scan: Scan
    delayed: Set[int]
    refusal: Refusal | None
    adds: bool = False


@lru_cache
def _directives(aliases: tuple[str, ...]) -> Directives:
    return Directives(directive_names(aliases) | RESERVED, {ATTEMPT})


class Screen:
    """One for as long as the rules stay the same."""

    def __init__(self, rules_for: Callable[[str], Rules], horizon_max_ms: int) -> None:
        self._rules_for = rules_for
        self._horizon_max_ms = horizon_max_ms

    def look(self, topic: str, batch: Batch, now_ms: int) -> Seen:
        """Which records are delayed is a function of their topic and bytes; `now_ms` only bounds how far ahead they
        may be due. Raises BatchError."""
        rules = self._rules_for(topic)
        scan = scan_batch(batch, _directives(rules.aliases), every=rules.default_delay_ms > 0)
        delayed: set[int] = set()
        errors: list[RecordError] = []
        adds = False
        for found in scan.found:
            verdict = read_directives(found.directives, now_ms, rules, self._horizon_max_ms)
            if isinstance(verdict, Invalid):
                errors.append(RecordError(found.place, f"{verdict.directive}: {verdict.detail}"))
            elif not isinstance(verdict, Immediate):
                delayed.add(found.place)
                adds = adds or isinstance(verdict, Schedule)
        if delayed:
            scan.batch.check()
        return Seen(scan, delayed, _invalid(errors) if errors else None, adds)

    def look_at_legacy(self, topic: str) -> Refusal | None:
        """Message sets older than headers hold no directives. Nor is there a way to delay them all the same."""
        if not self._rules_for(topic).default_delay_ms:
            return None
        text = "the topic has a default delay, which needs the record format of Kafka 0.11"
        return Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, text)


def _invalid(errors: list[RecordError]) -> Refusal:
    first = errors[0]
    message = f"record {first.batch_index}: {first.batch_index_error_message}"
    return Refusal(ErrorCode.INVALID_RECORD, message, errors[:RECORD_ERRORS_MAX])


def fits(seen: Seen, parts: Parts, target: Target) -> Refusal | None:
    """What a delayed record never meets on its way: the target topic's own checks."""
    found = [one for one in seen.scan.found if one.place in seen.delayed]
    if target.compacted and (keyless := [one.place for one in found if not one.has_key]):
        text = "a delayed record for a compacted topic needs a key"
        return _invalid([RecordError(place, text) for place in keyless])
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
