"""Bodies that clients send: one description for the decoder and the OpenAPI document.

Decoding is strict: unknown fields are errors, nothing is converted. If a JSON object has a field twice, the last one
counts (RFC 8259 leaves it open).
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw

from api.bodies.fields import Base64, Int64, Json, PartitionName, PartitionNumber


class HeaderIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A header of the message. Names of directives and of our own headers are refused: see `schedule`."""

    name: Annotated[str, Meta(min_length=1)]
    value: str | None = None
    value_base64: Base64 = None


class TimeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a message is due: one of these, or several that mean the same moment."""

    delay: Annotated[str | None, Meta(description="Duration: `90s`, `1h30m`, `7d`, or ISO 8601 `PT1H`.")] = None
    delay_ms: Annotated[Int64 | None, Meta(description="Milliseconds; 0 means at once.")] = None
    deliver_at: Annotated[
        str | Int64 | None, Meta(description="RFC 3339 with offset, or epoch milliseconds. In the past: at once.")
    ] = None
    level: Annotated[Int64 | None, Meta(description="RocketMQ delay level, from 1; see /v1/info for the table.")] = (
        None
    )


class ScheduleIn(TimeIn, frozen=True, forbid_unknown_fields=True):
    """When the message is due, once or again and again, and what holds while it waits."""

    cron: Annotated[
        str | None,
        Meta(description="Repeat: 5 fields, or 6 with seconds first. It gives the times; no other may be given."),
    ] = None
    time_zone: Annotated[str | None, Meta(description="With `cron`: an IANA time zone; else UTC.")] = None
    every: Annotated[
        str | None,
        Meta(
            description="Repeat: a duration, at least 1s. The first delivery is that far ahead, or at the time given."
        ),
    ] = None
    times: Annotated[
        Int64 | None, Meta(description="With `cron` or `every`: how many deliveries; default: no end.")
    ] = None
    backoff: Annotated[
        float | None, Meta(description="With `every`: a factor above 1, by which each gap is longer than the last.")
    ] = None
    missed: Annotated[
        str | None,
        Meta(
            description="With `cron` or `every`: which of the times that have passed are made up for; see the page."
        ),
    ] = None
    expire_at: Annotated[
        str | Int64 | None, Meta(description="Not delivered after this moment, which must lie behind the due time.")
    ] = None
    ttl: Annotated[str | None, Meta(description="The same, as a duration from the due time on.")] = None
    own_id: Annotated[
        str | None, Meta(description="Your own id, at most 256 bytes, for one message that waits at a time.")
    ] = None
    on_conflict: Annotated[
        str | None, Meta(description="With `own_id`: `keep` the message that has it already, or `replace` it.")
    ] = None
    retry: Annotated[
        str | None,
        Meta(description="Alone: give the message again, later, to the consumer group that has failed with it."),
    ] = None


class PatchIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message's new time, counted from when the operation is stored."""

    schedule: TimeIn


class MessageIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message. Without `schedule` it goes straight to the topic."""

    key: Json = UNSET
    key_base64: Base64 = None
    value: Json = UNSET
    value_base64: Base64 = None
    partition: Annotated[
        PartitionNumber | PartitionName | None,
        Meta(
            description="Its number, or its name as answers have it. "
            "Else the key decides (Java's default partitioner), else partitions take turns."
        ),
    ] = None
    headers: Sequence[HeaderIn] | None = None
    schedule: ScheduleIn | None = None


class BatchIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages for one topic. `atomic`: all or none; otherwise each gets its own result."""

    messages: Annotated[Sequence[MessageIn], Meta(min_length=1)]
    atomic: bool = True


class LooseBatchIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch whose members are looked at one by one, because one of them cannot be read."""

    messages: Annotated[Sequence[Raw], Meta(min_length=1)]
    atomic: bool = True


class RedriveIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters are sent again: those in `ids`, or all that were written up to `until`."""

    ids: Annotated[Sequence[str], Meta(min_length=1, max_length=1000)] | None = None
    all: bool = False
    until: Annotated[str | Int64 | None, Meta(description="With `all`: else now.")] = None
    after: Annotated[str | None, Meta(description="With `all`: `next_after` of the answer before.")] = None
    schedule: Annotated[TimeIn | None, Meta(description="When; else now, straight to the topic.")] = None
    dry_run: Annotated[bool, Meta(description="Only count them.")] = False


class PreviewIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to try out."""

    schedule: ScheduleIn
    count: Annotated[int, Meta(ge=1, le=100, description="How many due times to show of a message that repeats.")] = 5
