"""How a stalled shard is looked at, and made to go on, by its owner: no other process may write for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from delay_service.core.dead import Refusal
from delay_service.core.errors import COMMIT, UNKNOWN_FORMAT, UNREADABLE
from delay_service.core.skipping import AT_TAKEOVER, SKIPPED, WAYS_OUT
from delay_service.core.takeover import Accepted
from delay_service.worker.narrowing import Narrowing
from delay_service.worker.owned import Owned
from delay_service.worker.stalls import Stalls
from delayline.buffer.cursor import SKIPPED_MAX
from delayline.buffer.outcome import encode_skipped
from delayline.buffer.record import SKIP, encode_control
from delayline.process import logs
from delayline.questions.inquiry import Skip, StallReport, Suspected
from mq.contract import Admin, ShardBatch, Source
from mq.errors import CommitError

NO_WAY_OUT = "it goes on by itself when the cause is gone: nothing is skipped for that"

log = logs.get(__name__)


class Skipper:
    """Called from the worker's thread, which it blocks: an operator waits for the answer. `commit` waits for the one
    in flight, and raises CommitError; `complete` only waits for it, for a shard has one batch at a time; `finish`
    waits for takeovers that are under way; `take_over` takes a shard over or leaves it stalled; `dispatch` commits
    what a shard has due, and waits for that."""

    def __init__(
        self,
        admin: Admin,
        source: Source,
        stalls: Stalls,
        narrowing: Narrowing,
        commit: Callable[[Sequence[ShardBatch]], None],
        complete: Callable[[], None],
        finish: Callable[[], None],
        take_over: Callable[[Owned], None],
        dispatch: Callable[[Owned], None],
    ) -> None:
        self._admin = admin
        self._source = source
        self._stalls = stalls
        self._narrowing = narrowing
        self._commit = commit
        self._complete = complete
        self._finish = finish
        self._take_over = take_over
        self._dispatch = dispatch

    def report(self, owned: Owned, refused: str = "") -> StallReport:
        """Raises QueueError."""
        first, end = self._admin.log_range(owned.id)
        does, loses = WAYS_OUT.get(owned.reason or "", ("", ""))
        offset = first if owned.core is None else owned.core.position
        suspect = owned.bounds.suspect
        found = StallReport(
            owned.id, owned.reason, owned.progress.detail, offset, first, end, does, loses, refused=refused
        )
        if owned.reason != COMMIT:
            return found
        if suspect is None or not owned.bounds.is_convicted:
            return replace(found, does="", loses="")
        key, message_id, size, since_ms, tries = suspect
        return replace(found, offset=key.offset, suspect=Suspected(message_id, key.due_ms, size, since_ms, tries))

    def skip(self, owned: Owned, wanted: Skip, body: bytes) -> StallReport:
        """Raises QueueError."""
        self._complete()
        if owned.core is None:
            self._finish()  # it may go on by itself, and not with the stall that was seen
        seen = self.report(owned)
        if why := _refusal(owned, seen, wanted):
            return self.report(owned, why)
        log.warning(
            "an operator skips",
            topic=owned.id.topic,
            partition=owned.id.partition,
            reason=seen.reason,
            offset=wanted.offset,
            through=wanted.through,
            by=wanted.by,
            loses=seen.loses,
        )
        try:
            if wanted.reason in AT_TAKEOVER:
                self._accept(owned, wanted)
            elif wanted.reason == COMMIT:
                return self.report(owned, self._dead_letter(owned, wanted))
            else:
                self._pass_over(owned, wanted, body)
        except CommitError as error:
            return self.report(owned, f"it was not written: {error}")
        return self.report(owned)

    def _pass_over(self, owned: Owned, wanted: Skip, body: bytes) -> None:
        core = owned.core
        assert core is not None, "that was looked at"
        batch = core.take_skip(wanted.through, body, self._source.now_ms(owned.id), wanted.reason)
        try:
            self._commit([batch])
        except CommitError as error:
            core.aborted()
            self._stalls.void(owned, "commit_unknown", str(error))  # its cursor is read back: it may be committed
            raise
        core.committed()
        core.advance(wanted.through + 1)
        self._stalls.skip(owned)
        self._source.seek(owned.id, core.position)

    def _dead_letter(self, owned: Owned, wanted: Skip) -> str:
        """Try at most twice: with the record as it came, then without its contents (`narrowing.py`). Returns why it
        is not done yet, "" if it is; what is not done is tried again like any commit."""
        suspect = owned.bounds.suspect
        assert suspect is not None, "that was looked at"
        why = f"no commit went through with it, {suspect.tries} times; skipped by {wanted.by or 'an operator'}"
        self._narrowing.dead_letter(owned, suspect.key, Refusal(SKIPPED, why, ends=True))
        for _ in range(2):
            self._stalls.retry_at_once(owned)
            if owned.core is None:
                self._take_over(owned)
            if owned.core is not None:
                owned.core.refusals.update(owned.bounds.dead_lettered)
            self._dispatch(owned)
            if suspect.key not in owned.bounds.dead_lettered:
                return ""
        return f"it was not written, and will be tried again: {owned.progress.detail}"

    def _accept(self, owned: Owned, wanted: Skip) -> None:
        """Take the shard over with the loss that an operator has accepted, and record it in the log."""
        owned.operator.accepted = Accepted(wanted.reason, wanted.through)
        self._stalls.retry_at_once(owned)
        try:
            self._take_over(owned)
        finally:
            owned.operator.accepted = None
        if owned.core is not None:
            note = f"{wanted.reason} was accepted, from {wanted.through} on, by {wanted.by or 'an operator'}"
            cursor, now_ms = owned.core.cursor, self._source.now_ms(owned.id)
            accepted_loss = encode_skipped(owned.id, cursor.owner_epoch, now_ms, None, cursor.low_offset)
            control = encode_control(SKIP, note.encode())
            self._commit([ShardBatch(owned.id, cursor, appends=[control], audit=[accepted_loss])])


def _refusal(owned: Owned, seen: StallReport, wanted: Skip) -> str:
    if seen.reason is None:
        return "the shard is healthy: a record that waits is cancelled, not skipped"
    if (seen.reason, seen.offset) != (wanted.reason, wanted.offset):
        return f"it stands at offset {seen.offset} now, with the reason {seen.reason}: look again"
    if not seen.does:
        return NO_WAY_OUT
    if seen.reason in AT_TAKEOVER:
        outside = not seen.first <= wanted.through <= seen.end
    else:
        last = wanted.offset if seen.reason in (UNKNOWN_FORMAT, COMMIT) else seen.end - 1
        outside = not wanted.offset <= wanted.through <= last
    if outside:
        return (
            f"offset {wanted.through} is not one that it could go on at; the log holds {seen.first} to {seen.end - 1}"
        )
    skipped = owned.core.cursor.skipped if owned.core is not None else ()
    if seen.reason in (UNKNOWN_FORMAT, UNREADABLE) and len(skipped) >= SKIPPED_MAX:
        return f"{SKIPPED_MAX} ranges are skipped already: the first is forgotten when what waits before it has ended"
    return ""
