"""Mutants of what operators have had skipped. See `mutants`.

That an index which may hold what was skipped is rebuilt is not among them: the search meets that too rarely. A test
of its own shows it (tests/unit/delay_service/test_way_out.py).
"""

from tests.simulation.mutant import SHARD, SKIPPING, TAKEOVER, one

BREAKAGES_OF_SKIPS = (
    one(
        "what was skipped is read again by the next owner",
        SHARD,
        "records = self.cursor.unskipped(records)",
        "pass",
        first=110,
    ),
    one(
        "the cursor forgets what was skipped with the next commit",
        SHARD,
        "skipped=tuple(one for one in self.cursor.skipped if one[1] > low_offset),",
        "skipped=(),",
    ),
    one(
        "the cursor keeps a range that L has passed",
        SHARD,
        "skipped=tuple(one for one in self.cursor.skipped if one[1] > low_offset),",
        "skipped=self.cursor.skipped,",
    ),
    one(
        "a claim forgets what was skipped",
        TAKEOVER,
        "return replace(cursor, owner_epoch=cursor.owner_epoch + 1, writer=writer)",
        "return replace(cursor, owner_epoch=cursor.owner_epoch + 1, writer=writer, skipped=())",
    ),
    one(
        "a second skip forgets the first",
        SKIPPING,
        "passed = replace(cursor, skipped=(*cursor.skipped, (offset, through + 1)))",
        "passed = replace(cursor, skipped=((offset, through + 1),))",
    ),
    one(
        "a skip passes over the offset behind the range, too",
        SKIPPING,
        "passed = replace(cursor, skipped=(*cursor.skipped, (offset, through + 1)))",
        "passed = replace(cursor, skipped=(*cursor.skipped, (offset, through + 2)))",
    ),
    one(
        "a skip leaves no outcome row",
        SKIPPING,
        "rows = [AuditRow(offset, name, now_ms, now_ms, Outcome.DEAD, None, SKIPPED)]",
        "rows = []",
    ),
    one(
        "the audit does not say which offsets were skipped",
        SKIPPING,
        "audit.append(encode_skipped(shard, cursor.owner_epoch, now_ms, offset, through + 1))",
        "pass",
    ),
    one(
        "reading stands still before the holes, and not before the record that nobody knows",
        SHARD,
        "self._put(entries, near_until_ms, records[at][0] if at < len(records) else records[-1][0] + 1)",
        "self._put(entries, near_until_ms, records[at - 1][0] + 1 if at else 0)",
    ),
)
