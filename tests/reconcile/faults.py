"""What goes wrong with generated messages, case by case."""

import numpy as np

from tests.reconcile.stories import AWAY, LATE_AFTER_MS, MOVED_BY_MS, OWN_ID, SPAN_MS, Ints, Story, T

FAULTS = (
    "missing",
    "missing_re_append",
    "missing_instruction",
    "twice",
    "thrice",
    "orphan",
    "early",
    "late",
    "late_behind_a_move_into_the_past",
    "delivered_after_cancel",
    "delivered_before_cancel",
    "lost_successor",
    "unsettled_successor",
    "fork",
    "cancelled_and_re_appended",
    "another_time",
    "another_id",
    "applied",
    "unmatched_message",
    "delivered_instruction",
    "unknown_topic",
    "unknown_shard",
    "behind_the_end",
    "another_origin",
    "another_origin_that_is_announced",
    "rolled_to_another_time",
    "rolled_without_its_deadline",
    "moved_to_another_time",
    "replaced_by_nobody",
    "duplicate_of_nobody",
    "superseded_in_silence",
    "cancel_confirmed_and_delivered",
    "cancel_by_own_id_confirmed_and_delivered",
    "move_confirmed_and_delivered",
    "cancelled_by_nobody",
    "cancelled_without_a_reason",
    "moved_by_nobody",
    "purged_by_nobody",
    "another_one_cancelled",
    "move_that_cancelled",
    "operation_applied_without_a_word",
    "expired_without_a_deadline",
    "expired_without_a_reason",
    "expired_before_its_deadline",
    "expired_by_a_rule_at_once",
    "expired_with_no_series",
    "delivered_behind_its_deadline",
)


class Faults(Story):
    """Each of these methods is a fault, and records what is to be found."""

    def missing(self, b: Ints) -> None:
        self.fault("missing", self.append(b))

    def missing_re_append(self, b: Ints) -> None:
        due = self.due_ms[b] + 700_000
        self.fault("missing", self._move(b, self.append(b), self._between(b), due))

    def missing_instruction(self, b: Ints) -> None:
        self.delivered(b)
        self.fault("missing", self.instruct(b, self._between(b), "operation", None))

    def twice(self, b: Ints) -> None:
        records = self.append(b)
        self.deliver(records, self.due_ms[b])
        self.deliver(records, self.due_ms[b])
        self.fault("duplicated", records)

    def thrice(self, b: Ints) -> None:
        records = self.append(b)
        for _ in range(3):
            self.deliver(records, self.due_ms[b])
        self.fault("duplicated", records)

    def orphan(self, b: Ints) -> None:
        records = self.append(b)
        self.unaccepted.append(records)
        self.never.append(b)
        self.deliver(records, self.due_ms[b])
        self.fault("orphan", records)

    def early(self, b: Ints) -> None:
        records = self.append(b)
        self.end(records, "delivered", self.due_ms[b] - 1 - self.dice.integers(0, 900, len(b)))
        self.fault("early", records)

    def late(self, b: Ints) -> None:
        records = self.append(b)
        self.end(records, "delivered", self.due_ms[b] + LATE_AFTER_MS + 1 + self.dice.integers(0, 900_000, len(b)))
        self.fault("late", records)

    def late_behind_a_move_into_the_past(self, b: Ints) -> None:
        at = self._between(b)
        moved = self._move(b, self.append(b), at, at - 2 * LATE_AFTER_MS)
        self.end(moved, "delivered", at + LATE_AFTER_MS + 1)
        self.fault("late", moved)

    def delivered_after_cancel(self, b: Ints) -> None:
        records = self.cancelled(b)
        self.deliver(records, self.due_ms[b])
        self.fault("delivered_after_cancel", records)

    def delivered_before_cancel(self, b: Ints) -> None:
        records = self.append(b)
        self.deliver(records, self.due_ms[b])
        self.ask(b, self.due_ms[b] + 900, "cancelled", self.due_ms[b] + 1000)
        self.end(records, "cancelled", self.due_ms[b] + 1000, "cancelled")
        self.fault("two_outcomes", records)

    def lost_successor(self, b: Ints) -> None:
        records = self.append(b)
        self._moved(b, records, self._between(b), next=b)
        self.fault("missing", records)
        self.successors.append((records, self.due_ms[b] + MOVED_BY_MS))

    def unsettled_successor(self, b: Ints) -> None:
        records = self.append(b)
        self._moved(b, records, np.full(len(b), T + 3 * SPAN_MS), next=b)
        self.unsettled.append(records)

    def fork(self, b: Ints) -> None:
        records = self.rescheduled(b)
        again = self.append(b, self._between(b) + 9, self.due_ms[b] + 100, records)
        self.deliver(again, self.due_ms[b] + 100)
        self.fault("duplicated", records)

    def cancelled_and_re_appended(self, b: Ints) -> None:
        records = self.cancelled(b)
        self.deliver(self.append(b, self._between(b), self.due_ms[b], records), self.due_ms[b])
        self.fault("delivered_after_cancel", records)

    def another_time(self, b: Ints) -> None:
        records = self.append(b)
        self.deliver(records, self.due_ms[b] + 77_000, due=self.due_ms[b] + 77_000)
        self.fault("missing", records)
        self.fault("orphan", records)

    def another_id(self, b: Ints) -> None:
        """The id of an occurrence that there is not."""
        records = self.append(b)
        self.deliver(records, self.due_ms[b], occurrence=9)
        self.fault("missing", records)
        self.fault("orphan", records, 9)

    def applied(self, b: Ints) -> None:
        self._wrongly(self.append(b), "applied", self.due_ms[b])

    def unmatched_message(self, b: Ints) -> None:
        self._wrongly(self.append(b), "unmatched", self.due_ms[b])

    def delivered_instruction(self, b: Ints) -> None:
        self.delivered(b)
        self._wrongly(self.instruct(b, self._between(b), "operation", None), "delivered", self._between(b))

    def unknown_topic(self, b: Ints) -> None:
        self._elsewhere(b, "topic")

    def unknown_shard(self, b: Ints) -> None:
        self._elsewhere(b, "shard")

    def behind_the_end(self, b: Ints) -> None:
        self._elsewhere(b, "offset")

    def another_origin(self, b: Ints) -> None:
        """A re-append under the id of another message."""
        self._misnamed(b, b)

    def another_origin_that_is_announced(self, b: Ints) -> None:
        self._misnamed(b, (b + 1) % len(self.at_ms))

    def rolled_to_another_time(self, b: Ints) -> None:
        """Delivered before its time, and the row agrees with the re-append."""
        records, due = self.append(b), self.due_ms[b] - 1 - self.dice.integers(0, 900, len(b))
        self.deliver(self._carry_on(b, records, due - 50, due, "roll"), due)
        self.fault("wrong_successor", records)

    def rolled_without_its_deadline(self, b: Ints) -> None:
        records, due = self.append(b, lives_ms=5000), self.due_ms[b]
        self.deliver(self._carry_on(b, records, due - 900, due, "roll"), due)
        self.fault("wrong_successor", records)

    def moved_to_another_time(self, b: Ints) -> None:
        records, at, due = self.append(b), self._between(b), self.due_ms[b] + MOVED_BY_MS - 1
        self._moved(b, records, at, next=b)
        self.deliver(self.append(b, at, due, records), due)
        self.fault("wrong_successor", records)

    def replaced_by_nobody(self, b: Ints) -> None:
        self._yields_to_nobody(b, "superseded", "replaced")

    def duplicate_of_nobody(self, b: Ints) -> None:
        self._yields_to_nobody(b, "duplicate", "own-id")

    def superseded_in_silence(self, b: Ints) -> None:
        records = self.append(b)
        self._moved(b, records, self._between(b))
        self.fault("missing", records)
        self.successors.append((records, self.due_ms[b] + MOVED_BY_MS))

    def cancel_confirmed_and_delivered(self, b: Ints) -> None:
        self.delivered(b)
        self.promises.append(("confirmed_in_vain", self.ask(b, self._between(b), "cancelled")))

    def cancel_by_own_id_confirmed_and_delivered(self, b: Ints) -> None:
        self.delivered(b)
        self.promises.append(("confirmed_in_vain", self.ask(b, self._between(b), "cancelled", ref=OWN_ID)))

    def move_confirmed_and_delivered(self, b: Ints) -> None:
        self.delivered(b)
        self.promises.append(("confirmed_in_vain", self.ask(b, self._between(b), "rescheduled")))

    def cancelled_by_nobody(self, b: Ints) -> None:
        self._unasked(self.append(b), "cancelled", self._between(b), "cancelled")

    def cancelled_without_a_reason(self, b: Ints) -> None:
        self._unasked(self.append(b), "cancelled", self._between(b), None)

    def moved_by_nobody(self, b: Ints) -> None:
        due, records = self.due_ms[b] + 700_000, self.append(b)
        self.deliver(self._carry_on(b, records, self._between(b), due), due)
        self.fault("unasked", records)

    def purged_by_nobody(self, b: Ints) -> None:
        """Behind the last purge."""
        self._unasked(self.append(b), "cancelled", np.maximum(self.due_ms[b], self.at_ms[-1] + 20_000), "purged")

    def another_one_cancelled(self, b: Ints) -> None:
        """The right number of messages, and not the right ones."""
        half = len(b) // 2
        asked, ended, done = b[:half], b[half : 2 * half], self._between(b[half : 2 * half])
        self.delivered(b[2 * half :])
        self.delivered(asked)
        self.promises.append(("confirmed_in_vain", self.ask(asked, done - 5, "cancelled", done)))
        self._unasked(self.append(ended), "cancelled", done, "cancelled")

    def move_that_cancelled(self, b: Ints) -> None:
        """Its record asks for another time, its row reports that it has cancelled."""
        at = self._between(b)
        self.end(self.append(b), "cancelled", at + 5, "cancelled")
        self.fault("wrong_outcome", self.ask(b, at, "cancelled", asks="rescheduled"))

    def operation_applied_without_a_word(self, b: Ints) -> None:
        """What it did is not recorded."""
        self.delivered(b)
        self.fault("wrong_outcome", self.ask(b, self._between(b), "cancelled", reason=None))

    def expired_without_a_deadline(self, b: Ints) -> None:
        self._wrongly_expired(self.append(b), self.due_ms[b] + 600_000, "deadline")

    def expired_without_a_reason(self, b: Ints) -> None:
        self._wrongly_expired(self.append(b), self.due_ms[b] + 600_000, None)

    def expired_before_its_deadline(self, b: Ints) -> None:
        self._wrongly_expired(self.append(b, lives_ms=600_000), self.due_ms[b] + 600_000, "deadline")

    def expired_by_a_rule_at_once(self, b: Ints) -> None:
        """No rule can be so strict."""
        self._wrongly_expired(self.append(b), self.due_ms[b] + 1000, "late-max")

    def expired_with_no_series(self, b: Ints) -> None:
        self._wrongly_expired(self.append(b), self.due_ms[b] + 600_000, "missed")

    def delivered_behind_its_deadline(self, b: Ints) -> None:
        records = self.append(b, lives_ms=20_000)
        self.end(records, "delivered", self.due_ms[b] + 20_001)
        self.fault("behind_deadline", records)

    # --- helpers

    def _wrongly_expired(self, records: Ints, done: Ints, reason: str | None) -> None:
        self.end(records, "expired", done, reason)
        self.fault("wrongly_expired", records)

    def _unasked(self, records: Ints, outcome: str, done: Ints, reason: str | None) -> None:
        self.end(records, outcome, done, reason)
        self.fault("unasked", records)

    def _wrongly(self, records: Ints, outcome: str, done: Ints) -> None:
        self.end(records, outcome, done)
        self.fault("wrong_outcome", records)

    def _elsewhere(self, b: Ints, what: str) -> None:
        """Delivered, and a second row reports it of a place that does not exist."""
        records = self.append(b)
        self.deliver(records, self.due_ms[b])
        self.end(records, "delivered", self.due_ms[b], away=AWAY.index(what))
        self.fault("orphan", records, away=AWAY.index(what))

    def _misnamed(self, b: Ints, announced: Ints) -> None:
        records, at, due = self.append(b), self._between(b), self.due_ms[b] + 700_000
        self._moved(b, records, at, next=announced)
        other = (b + 1) % len(self.at_ms)
        again = self.records.add(len(b), message=other, at=at, due=due, kind=0, replaces=records)
        self.deliver(again, due)
        self.fault("wrong_successor", records)

    def _yields_to_nobody(self, b: Ints, outcome: str, reason: str) -> None:
        """The message that it names is another's id with another due time."""
        records = self.append(b)
        self.end(records, outcome, self._between(b), reason, next=b, next_is_nobody=1)
        self.fault("wrong_successor", records)
