"""A batch that a shard has handed out and whose result is not known yet, and the result of its commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from delay_service.core.batch_draft import BatchDraft
from delay_service.core.operations import Decided
from delay_service.core.pending_record import Move
from delayline.buffer.outcome import AuditRow, PlainRows
from delayline.questions.inquiry import Resolution
from delayline.records.message import Key
from mq.contract import ShardBatch


@dataclass(slots=True)
class InFlightBatch:
    """A batch in flight: `ended` are the keys (due_ms, offset) that it delivers, dead-letters or lets expire; `moved`
    are the keys of messages that go on in another record. A key may be in both. `replaced` are pairs: a key out of
    these whose re-append has been read since, and the key of the re-append."""

    batch: ShardBatch
    ended: list[tuple[int, int]]
    moved: dict[Key, Move]
    decided: Decided
    draft: BatchDraft
    at_ms: int
    pending: int | None  # the number in its low-water mark, if it has one
    replaced: list[tuple[Key, Key]] = field(default_factory=list)

    def ends(self, key: Key) -> bool:
        """Whether the record is gone once the batch is committed. Rare for what is not moved."""
        return key in self.moved or key in self.decided.ended or key in self.ended

    @property
    def only_key(self) -> Key | None:
        """The record that it ends, if that is the only one."""
        return Key(*self.ended[0]) if len(self.ended) == 1 else None

    @property
    def surplus(self) -> list[Key]:
        """Re-appends that are not ours, of messages that this very batch ends."""
        return [new for old, new in self.replaced if old not in self.moved]


class CommitResult(NamedTuple):
    """What a commit made true: for metrics, history and waiting callers. `resolved` has the outcomes of the records
    that asked for something, by offset; `versions` are those of re-appended messages; `plain` are the rows that are
    not among `rows`."""

    rows: Sequence[AuditRow]
    at_ms: int
    resolved: Sequence[tuple[int, Resolution]] = ()
    versions: Mapping[str, int] = {}
    plain: Sequence[PlainRows] = ()
