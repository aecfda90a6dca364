"""What an operator has had skipped: it has ended by that, once and for every owner, and nothing else has."""

from tests.simulation.checker.known import Known
from tests.simulation.history import Committed

Range = tuple[int, int]


class SkipRules(Known):
    """A commit that skips does nothing else."""

    def skipped_by(self, fact: Committed) -> Range | None:
        """The range that this commit skips. Other commits keep the ranges that L has not passed."""
        before, after = fact.before, fact.after
        if before is None or after is None or before.epoch != after.epoch:
            return None
        new = [one for one in after.skipped if one not in before.skipped]
        if new:
            return new[0]
        kept = tuple(one for one in before.skipped if one[1] > after.low_offset)
        if after.skipped != kept:
            self.complain("skip", f"the cursor has the ranges {after.skipped}, and not {kept}")
        return None

    def skip(self, fact: Committed, found: Range) -> None:
        assert fact.before is not None
        assert fact.after is not None
        first, end = found
        if found not in self.skips_asked:
            self.complain("skip", f"{found} was skipped, and nobody had asked for it")
        if fact.after != fact.before._replace(skipped=(*fact.before.skipped, found)):
            self.complain("skip", f"not one range more and nothing else: {fact.before} -> {fact.after}")
        self.check_its_rows(fact, found)
        self.held_before, self.edge_before = dict(self.holders), {}
        for offset in range(first, end):
            self.skipped.add(offset)
            self.named.add(offset)
            self.waiting.discard(offset)
            if self.pending.pop(offset, None) is not None:
                self.endings[offset] = "skipped"
                self.free(offset)
        self.cursor = fact.after

    def check_its_rows(self, fact: Committed, found: Range) -> None:
        """One dead letter, one row under its name, and the range."""
        first, _ = found
        recorded = [(row["off"], row["id"], row["out"], row["rsn"]) for row in fact.rows or ()]
        letters = [(first, dead.id, "dead", "skipped") for dead in fact.dead]
        if len(letters) != 1 or recorded != letters or [dead.offset for dead in fact.dead] != [first]:
            self.complain("skip", f"skipping {found} has the rows {recorded} and the dead letters {letters}")
        if list(fact.skips) != [found]:
            self.complain("skip", f"the audit has {fact.skips} as skipped, and not {found}")
        if fact.deliveries or fact.appended or fact.low_water:
            self.complain("skip", f"the commit that skips {found} does something else too")

    def free(self, offset: int) -> None:
        """The names of a message that waited there. No owner saw it end, so nobody remembers its key."""
        fact = self.facts[offset]
        for name in fact.terms.names:
            if self.holders.get(name) == fact.id and self.carriers.get(fact.id or "") == offset:
                del self.holders[name]

    def check_not_skipped(self, fact: Committed) -> None:
        late = [row["off"] for row in fact.rows or () if row["off"] in self.skipped]
        if late:
            self.complain("skip", f"records {late} have an outcome although they had been skipped")
        if fact.skips:
            self.complain("skip", f"the audit has {fact.skips} as skipped, the cursor does not")
