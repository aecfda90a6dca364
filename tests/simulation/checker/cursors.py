"""Rules about the cursor: what it contains, and what it may never contain."""

from collections.abc import Sequence

from tests.simulation.checker.known import NOTHING_DELIVERED, Known
from tests.simulation.history import Committed, Cursor, Key


class CursorRules(Known):
    """O, D, L, the owner, and what their sentence makes terminal."""

    def compare_cursors(self, before: Cursor | None, after: Cursor) -> bool:
        """Whether this is a claim."""
        if before != self.cursor:
            self.complain("cursor", f"was {self.cursor}, then {before} without a commit")
        if before is None or after.epoch != before.epoch:
            self.check_claim(before, after)
            return True
        if after.writer != before.writer:
            self.complain("claim", f"the writer changed within an epoch: {before} -> {after}")
        for name in ("next_offset", "delivered_key", "low_offset"):
            if getattr(after, name) < getattr(before, name):
                self.complain("cursor", f"{name} went back: {before} -> {after}")
        return False

    def check_claim(self, before: Cursor | None, after: Cursor) -> None:
        start = before or Cursor(0, NOTHING_DELIVERED, 0, 0, None, after.rules_number)
        if after != start._replace(epoch=start.epoch + 1, writer=after.writer):
            self.complain("claim", f"not one epoch more and nothing else: {before} -> {after}")
        if after.writer == "":
            self.complain("claim", f"nobody's: {after}")

    def check_claim_is_bare(self, fact: Committed, after: Cursor) -> None:
        if fact.deliveries or fact.dead or fact.appended or fact.rows:
            self.complain("claim", f"the claim of epoch {after.epoch} carries more than the cursor")

    def check_cursor(self, cursor: Cursor, taken: list[Key], ended: list[int]) -> None:
        delivered_key = max([self.cursor.delivered_key if self.cursor else NOTHING_DELIVERED, *taken])
        if cursor.delivered_key != delivered_key:
            self.complain("cursor", f"D is {cursor.delivered_key}, the last key delivered {delivered_key}")
        self.check_sentence(cursor, ended)
        self.check_low(cursor)

    def check_sentence(self, cursor: Cursor, ended: list[int]) -> None:
        """A record is terminal when (offset < O and key <= D), or when it is named. Nothing else ends one."""
        next_offset, delivered_key = cursor.next_offset, cursor.delivered_key
        for offset, key in self.pending.items():
            if offset in self.named or (offset < next_offset and key <= delivered_key):
                self.complain("sentence", f"{key} is pending, but terminal by {_place(cursor)} or by name")
        for offset in ended:
            key = (self.facts[offset].due_ms or 0, offset)
            if offset not in self.named and not (offset < next_offset and key <= delivered_key):
                self.complain("sentence", f"{key} has ended, but neither {_place(cursor)} nor a name shows it")

    def check_low(self, cursor: Cursor) -> None:
        low_offset = cursor.low_offset
        if low_offset > cursor.next_offset:
            self.complain("low", f"L is above O: {_place(cursor)}")
        below = [offset for offset in self.pending if offset < low_offset]
        if below:
            self.complain("low", f"records {below} are pending below L: {_place(cursor)}")
        in_force = max((number for number in self.rules if number[0] < low_offset), default=(0, 0))[1]
        if cursor.rules_number not in (None, in_force):
            self.complain(
                "rules", f"{in_force} are in force at L = {low_offset}, the cursor has {cursor.rules_number}"
            )

    def check_low_water(self, marks: Sequence[tuple[int, int, int]]) -> None:
        """A reader closes windows of due time on these words: nothing before them may still be pending, and where
        nothing is pending at all, nothing below the mark may lack its outcome row."""
        for mark in marks:
            self.mark = mark
            next_offset, low_ms, pending = mark
            below = [key for offset, key in self.pending.items() if offset < next_offset]
            early = [key for key in below if key[0] < low_ms]
            if early:
                self.complain("low water", f"{early} are pending before the mark {mark}")
            if not len(below) <= pending <= len(self.pending):
                self.complain(
                    "low water", f"the mark {mark} stands above {len(below)} of {len(self.pending)} pending"
                )
            known = self.facts if self.rows is None else self.rows
            silent = [
                offset
                for offset in self.facts
                if offset < next_offset and offset not in known and offset not in self.skipped
            ]
            if pending == 0 and silent:
                self.complain("low water", f"records {silent} have no outcome row below the mark {mark}")

    def check_last_mark(self) -> None:
        """A shard with nothing left to do has reported that."""
        end = max(self.facts, default=-1) + 1
        if self.mark is not None and (self.mark[0] < end or self.mark[2] > 0):
            self.complain("low water", f"the last mark is {self.mark}, but everything below {end} has ended")

    def trim(self, low_offset: int) -> None:
        if self.cursor is not None and low_offset > self.cursor.low_offset:
            self.complain("trim", f"cut below {low_offset}, committed is {_place(self.cursor)}")
        if any(offset < low_offset for offset in self.pending):
            self.complain("trim", f"something pending was below {low_offset}")


def _place(cursor: Cursor) -> str:
    return f"O={cursor.next_offset} D={cursor.delivered_key} L={cursor.low_offset}"
