"""Bodies that clients get: one description for the encoder and the OpenAPI document."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.bodies.fields import Moment
from api.http.problems import Problem


class SentMessage(msgspec.Struct, frozen=True):
    """A message that is durable in the queue. Sent without a delay it has no id and no due time."""

    message_id: str | None
    topic: str
    partition: int | str
    state: Annotated[
        str,
        Meta(
            description="`accepted`: waits for its due time; `delivered`: is in the topic. If another message "
            "has the own id (`deduplicated`), the state of that one."
        ),
    ]
    accepted_at: Annotated[
        Moment | None, Meta(description="null of an earlier message that has ended and is not kept.")
    ]
    due_at: Moment | None
    own_id: str | None = None
    version: int = 0
    deduplicated: Annotated[
        bool, Meta(description="Another message that waits has the own id. This is that one; no other was stored.")
    ] = False


class UnconfirmedMessage(msgspec.Struct, frozen=True):
    """Handed over, not stored yet (`mode=async`)."""

    message_id: None = None
    own_id: str | None = None
    durable: bool = False


_SENT_OR_UNCONFIRMED = {
    "anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("SentMessage", "UnconfirmedMessage")]
}


class MemberResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one member of a batch: `message` or `problem`."""

    index: int
    status: int
    message: Annotated[Any, Meta(extra_json_schema=_SENT_OR_UNCONFIRMED)] = UNSET
    problem: Problem | UnsetType = UNSET


class BatchAnswer(msgspec.Struct, frozen=True):
    """The outcome of a batch; results are in the order of its messages."""

    accepted: int
    rejected: int
    results: Sequence[MemberResult]


class HeaderOut(msgspec.Struct, frozen=True):
    """A header as it is in a record; bytes that are no UTF-8 are in `value_base64`."""

    name: str
    value: str | None
    value_base64: bytes | UnsetType = UNSET


class RecordOut(msgspec.Struct, frozen=True):
    """A record of a topic. `value_base64` and `key_base64` stand for bytes that are no UTF-8."""

    partition: int | str
    offset: int
    timestamp: Moment
    key: str | None
    value: str | None
    headers: Sequence[HeaderOut]
    key_base64: bytes | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET


class RecordsPage(msgspec.Struct, frozen=True):
    """Records, oldest first."""

    records: Sequence[RecordOut]


class EndingOut(msgspec.Struct, frozen=True):
    """How a message ended."""

    state: str
    at: Moment
    lateness_ms: int | None
    reason: str | None


class EventOut(msgspec.Struct, frozen=True):
    """Something that happened to a message, through whom, and its version from then on."""

    at: Moment
    event: str
    by: Annotated[str, Meta(description="`client` or `worker`")]
    version: int


class RepeatOut(msgspec.Struct, frozen=True, kw_only=True):
    """How a message repeats, as it stands now: an `every` that grows is the gap behind the coming delivery."""

    cron: str | None
    time_zone: str | None
    every: str | None
    backoff: float | None
    missed: str
    times_left: Annotated[
        int | None, Meta(description="Deliveries still to come, this one included; null means no end")
    ]
    occurrence: Annotated[int, Meta(description="Which delivery is waited for, from 1")]


class MessageOut(msgspec.Struct, frozen=True):
    """A message as its owner knows it. Key, value and headers are here with `view=full` while it waits; `history`
    is what its owner remembers, and not part of lists."""

    message_id: str
    topic: str
    partition: int | str
    state: str
    accepted_at: Moment
    due_at: Moment
    version: int
    outcome: EndingOut | None
    own_id: str | None = None
    next_due_at: Annotated[Moment | None, Meta(description="Of a repeat: the time behind `due_at`")] = None
    deduplicated: bool = False
    expires_at: Annotated[
        str | UnsetType, Meta(description="Not delivered after this moment; only where it has one")
    ] = UNSET
    repeat: RepeatOut | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    key_base64: bytes | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    value_base64: bytes | UnsetType = UNSET
    headers: Sequence[HeaderOut] | UnsetType = UNSET
    history: Sequence[EventOut] | UnsetType = UNSET


class OperationOut(msgspec.Struct, frozen=True):
    """An operation that is in the log, and what came of it."""

    operation_id: str
    state: Annotated[
        str,
        Meta(
            description="`accepted`: not decided yet; `applied`; `unmatched`: its message did not wait any more; "
            "`version-mismatch`: its message had another version"
        ),
    ]
    target: Annotated[str, Meta(description="The message's id, or its own id")]


class ShardOut(msgspec.Struct, frozen=True):
    """Where messages for one partition of a topic wait."""

    topic: str
    partition: int | str


_Complete = Annotated[bool, Meta(description="Every shard's owner has answered; else see `missing_shards`.")]


class MessagesPage(msgspec.Struct, frozen=True):
    """A page of a list of messages, which may be short; only `next_page_token: null` means that there is no more."""

    messages: Sequence[MessageOut]
    next_page_token: str | None
    looked: Annotated[int, Meta(description="At how many waiting messages this page has looked")]
    as_of: Moment
    complete: _Complete
    missing_shards: Sequence[ShardOut]


class HistogramOut(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """Pending messages by due time: `counts[i]` from `from` + i * `bucket_ms` on, for one bucket."""

    topic: str
    from_: Moment
    to: Moment
    bucket: str
    bucket_ms: int
    counts: Sequence[int]
    before: int
    after: int
    as_of: Moment
    complete: _Complete
    missing_shards: Sequence[ShardOut]


class DeadLetterOut(msgspec.Struct, frozen=True, kw_only=True):
    """A message that could not be delivered, as it came, and why."""

    id: Annotated[str, Meta(description="Of the dead letter: for `dead:redrive`.")]
    message_id: str
    topic: str
    partition: int | str
    offset: Annotated[int, Meta(description="Where it waited, in the buffer")]
    due_at: Moment
    dead_at: Moment
    error_code: str
    reason: str
    key: str | None
    key_base64: bytes | UnsetType = UNSET
    value: str | None
    value_base64: bytes | UnsetType = UNSET
    headers: Sequence[HeaderOut]


class DeadPage(msgspec.Struct, frozen=True):
    """Dead letters, newest first; only `next_before: null` means that there are no more."""

    messages: Sequence[DeadLetterOut]
    next_before: str | None


class RedriveOut(msgspec.Struct, frozen=True):
    """How many letters were meant, and how many have been sent again; `next_after` where there are more."""

    matched: int
    redriven: int
    not_found: Sequence[str]
    next_after: str | None
    dry_run: bool


class StallOut(msgspec.Struct, frozen=True):
    """Why a shard cannot go on: a word, a sentence, and when it tries again."""

    partition: int | str
    reason: str
    detail: str
    retry_in_ms: int


class TopicOut(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the queue, and how it stands. Figures are null where no owner answers for any of its shards."""

    name: str
    partitions: int
    delay_enabled: bool
    pending: Annotated[int | None, Meta(description="Messages that wait, as indexed")]
    repeats: Annotated[int | None, Meta(description="Of them, those that repeat")]
    due_backlog: Annotated[int | None, Meta(description="Of them, those that are due and not delivered yet")]
    oldest_due_at: Annotated[Moment | None, Meta(description="When the first of those was due")]
    next_due_at: Annotated[Moment | None, Meta(description="The first due time of all that wait")]
    ingest_lag: Annotated[int | None, Meta(description="Buffer records that are not indexed yet")]
    stalled: Sequence[StallOut]
    paused: Annotated[bool | None, Meta(description="Nothing is delivered in at least one shard, until a resume")]
    complete: _Complete
    missing_shards: Sequence[ShardOut]


class TopicsOut(msgspec.Struct, frozen=True):
    """The topics that users can send to, by name."""

    topics: Sequence[TopicOut]
    as_of: Moment
    complete: _Complete


class ShardView(msgspec.Struct, frozen=True, kw_only=True):
    """How a shard stands; every figure is null where no owner answers for it (`missing`)."""

    partition: int | str
    state: Annotated[str, Meta(description="`running`, `catching-up`, `stalled` or `missing`")]
    pending: int | None = None
    repeats: int | None = None
    due_backlog: int | None = None
    oldest_due_at: Moment | None = None
    next_due_at: Moment | None = None
    ingest_lag: int | None = None
    owner_epoch: int | None = None
    next_offset: int | None = None
    low_offset: int | None = None
    paused: bool | None = None
    stalled: StallOut | None = None


class UnheededOut(msgspec.Struct, frozen=True):
    """A header about a delay that means nothing in this topic."""

    header: str
    why: Annotated[
        str,
        Meta(description="`topic-not-enabled`: delay.topics does not name the topic; `unknown-name`: no directive"),
    ]
    seen: Annotated[int, Meta(description="In how many of the messages that were looked at, by this process")]
    detail: str


class TopicView(TopicOut, frozen=True, kw_only=True):
    """A topic, and each of its shards."""

    as_of: Moment
    shards: Sequence[ShardView]
    unheeded: Sequence[UnheededOut]


class PreviewOut(msgspec.Struct, frozen=True):
    """What a schedule would mean for a message accepted at `accepted_at`."""

    accepted_at: Moment
    immediate: Annotated[bool, Meta(description="The message would go straight to the topic.")]
    due_at: Annotated[Sequence[Moment], Meta(description="The first of them; all, where there are fewer than asked.")]


class Limits(msgspec.Struct, frozen=True):
    """What a request may hold."""

    body_bytes_max: int
    batch_messages_max: int
    headers_max: int
    key_bytes_max: int
    page_records_max: int


class InfoOut(msgspec.Struct, frozen=True):
    """What this installation is."""

    name: str
    version: str
    namespace: str
    guarantee: str
    horizon_max: str
    levels: Sequence[str]
    topics_on_first_use: bool
    limits: Limits
    now: Moment


class SessionOut(msgspec.Struct, frozen=True):
    """Who the caller is."""

    principal: str
    csrf_token: Annotated[
        str | None, Meta(description="Of a session: the value of X-CSRF-Token in requests that change something.")
    ] = None
    expires_at: Annotated[
        Moment | None, Meta(description="When the session ends, or the key. null: not by itself.")
    ] = None


class LoginsOut(msgspec.Struct, frozen=True):
    """How people can log in."""

    key: Annotated[bool, Meta(description="With a key: POST /v1/session.")]
    issuer: Annotated[
        str | None, Meta(description="By this identity provider: a browser opens /v1/session/login. null: not.")
    ]


class HealthOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process answers."""

    status: str
    detail: Annotated[str | None, Meta(description="Shards that have stalled, each with the reason.")] = None
