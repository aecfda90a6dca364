"""Bodies of what acts on many messages, or on a topic; see `api.bodies.answers`."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from api.bodies.answers import ShardOut
from api.bodies.fields import Int64, Moment, PartitionNumber

_MomentIn = Annotated[str | Int64 | None, Meta(description="RFC 3339 with offset, or epoch milliseconds")]


class FilterIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages that wait in one topic; all of them where no field is given."""

    topic: str
    key: Annotated[str | None, Meta(description="Only messages with this key, as UTF-8")] = None
    own_id: Annotated[str | None, Meta(description="Only messages with this own id")] = None
    due_after: Annotated[_MomentIn, Meta(description="Due at this moment or later")] = None
    due_before: Annotated[_MomentIn, Meta(description="Due before this moment")] = None


class UndoOut(msgspec.Struct, frozen=True):
    """How to bring back what was ended: `POST /v1/topics/{topic}:undo?id=...`, until then."""

    id: str
    until: Moment


class OpenUndoOut(msgspec.Struct, frozen=True):
    """An undo that can still be asked for, `of` a `purge` or a `cancel` that was asked for at `opened_at`."""

    id: str
    of: str
    opened_at: Moment
    until: Moment


class UndosPage(msgspec.Struct, frozen=True):
    """Undos, newest first; only `next_before: null` means that there are no more."""

    undos: Sequence[OpenUndoOut]
    next_before: str | None


class UndoneOut(msgspec.Struct, frozen=True):
    """How many messages came back, as new ones, and how many had come back by an earlier request."""

    topic: str
    id: str
    restored: int
    restored_before: int


_NO_UNDO = Meta(description="null where nothing is kept")


class CancelIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages to cancel."""

    filter: FilterIn
    dry_run: Annotated[bool, Meta(description="Only count them")] = False
    undo: Annotated[bool, Meta(description="false: keep no copies, it cannot be undone")] = True


class CancelOut(msgspec.Struct, frozen=True, kw_only=True):
    """What came of cancelling many messages: `matched` is the sum of the others, but for a dry run."""

    matched: int
    cancelled: int
    too_late: Annotated[int, Meta(description="Ended otherwise before they could be cancelled")]
    unknown: Annotated[int, Meta(description="Not decided in time: they may be cancelled or not")]
    dry_run: bool
    complete: Annotated[bool, Meta(description="Every match was found; else sending it again goes on")]
    missing_shards: Sequence[ShardOut]
    undo: Annotated[UndoOut | None, _NO_UNDO]


class ControlOut(msgspec.Struct, frozen=True):
    """The new state of a topic: `paused` or `resumed`, and in how many of its shards."""

    topic: str
    state: str
    shards: int
    complete: Annotated[bool, Meta(description="In all of them; else it is stored and will happen in the others")]
    missing_shards: Sequence[ShardOut]


class TopicIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to make."""

    name: Annotated[str, Meta(description="1 to 249 of a-z A-Z 0-9 . _ -")]
    partitions: Annotated[int | None, Meta(description="1 to 256; 4 where it is left out")] = None


class TopicMade(msgspec.Struct, frozen=True):
    """The topic that was made."""

    name: str
    partitions: int


class TopicDeleted(msgspec.Struct, frozen=True):
    """The topic that is gone, and how many messages were cancelled for it."""

    topic: str
    cancelled: int


class SkipIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the shard has stalled, as it was seen, and where it shall go on."""

    reason: str
    offset: Annotated[int, Meta(ge=0, description="Where it stands")]
    through: Annotated[
        int, Meta(ge=0, description="The last offset to be skipped; at a takeover, the first to begin at")
    ]
    by: Annotated[str, Meta(max_length=200, description="Who has decided it, for the log")] = ""


class SuspectOut(msgspec.Struct, frozen=True):
    """The one record of the commits that failed."""

    id: str
    due_at: str
    bytes: Annotated[int, Meta(description="What is to be delivered of it")]
    since: Annotated[str, Meta(description="When the first commit of it alone failed")]
    tries: Annotated[int, Meta(description="How many have")]


class StalledOut(msgspec.Struct, frozen=True, kw_only=True):
    """Why a shard has stalled, and what skipping would do and lose; null where there is nothing to skip."""

    topic: str
    partition: PartitionNumber | str
    reason: Annotated[str | None, Meta(description="Null where the shard is healthy")]
    detail: str
    offset: Annotated[int, Meta(description="Where it stands")]
    first_offset: Annotated[int, Meta(description="The first that the log holds")]
    end_offset: Annotated[int, Meta(description="Behind the last one")]
    does: str | None
    loses: str | None
    record: Annotated[str | None, Meta(description="The beginning of what can be read at `offset`, base64")]
    suspect: Annotated[
        SuspectOut | None, Meta(description="The record at `offset`, where that is what no commit goes through with")
    ]


class PurgeOut(msgspec.Struct, frozen=True):
    """How many messages waited, and how many of them are cancelled."""

    topic: str
    matched: int
    cancelled: int
    dry_run: bool
    complete: Annotated[bool, Meta(description="In all shards; else it is stored and will happen in the others")]
    missing_shards: Sequence[ShardOut]
    undo: Annotated[UndoOut | None, _NO_UNDO] = None
