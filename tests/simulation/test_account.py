"""Those who keep accounts of a buffer topic read its records as the service does: what they expect an outcome row to
say is what it says, over every kind of traffic that the simulation knows but what stalls a shard: of an offset that
was skipped accounts take the operator's word (tests/reconcile/test_skipped.py)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from delayline.buffer_facts import MESSAGE, BufferFact, fact_of
from delayline.message import Key, Shard
from delayline.rules import DEFAULT_RULES
from mq.contract import LogRecord
from tests.simulation.broker import Partition
from tests.simulation.history import Committed, Fact
from tests.simulation.scene import name_of
from tests.simulation.world import World

SEEDS = 250
ENDS = ("cancelled", "delivered", "dead", "expired", "superseded")
SITUATIONS = (
    *("control: applied paused", "control: applied purged", "decision: applied None", "rules: applied None"),
    *("operation: applied cancelled", "operation: applied rescheduled", "operation: unmatched not-pending"),
    *("message: delivered None", "message: delivered None, goes on", "message: cancelled purged"),
    *("message: cancelled cancelled", "message: cancelled cancelled, goes on"),
    *("message: dead malformed-record", "message: dead refused", "message: dead invalid-schedule"),
    *("message: duplicate own-id", "message: duplicate idempotency", "message: superseded replaced"),
    *("message: expired deadline", "message: expired deadline, goes on", "message: expired late-max"),
    *("message: superseded rescheduled, goes on", "message: superseded roll, goes on"),
    *("message: superseded scheduled, goes on", "message: superseded missed, goes on"),
)
"""Kind, outcome and reason of rows: what must have been looked at."""


def run(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[Fact], Mapping[int, list[LogRecord]]]:
    """A world, what happened in it, and by partition everything that was ever readable in its log."""
    kept: dict[int, dict[int, LogRecord]] = {}
    append, erase = Partition.append, Partition.erase

    def appending(self: Partition, at_ms: int, body: bytes) -> int:
        offset = append(self, at_ms, body)
        kept.setdefault(id(self), {})[offset] = LogRecord(offset, at_ms, body)
        return offset

    def erasing(self: Partition, offsets: Sequence[int]) -> None:
        erase(self, offsets)
        for offset in offsets:
            del kept[id(self)][offset]

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "append", appending)
        patch.setattr(Partition, "erase", erasing)
        world = World(seed)
        history = world.run()
    return world, history, {log: list(records.values()) for log, records in kept.items()}


def account(shard: Shard, records: Sequence[LogRecord]) -> dict[int, BufferFact]:
    """By offset, as a reader of the whole log has it."""
    rules, facts = DEFAULT_RULES, {}
    for offset, appended_at_ms, body in records:
        fact = facts[offset] = fact_of(shard, offset, appended_at_ms, body, rules)
        rules = fact.rules or rules
    return facts


def rows_of(shard: Shard, history: Sequence[Fact]) -> list[dict[str, Any]]:
    commits = [fact for fact in history if isinstance(fact, Committed) and fact.shard == name_of(shard)]
    return [row for commit in commits for row in commit.rows or ()]


def carries_on(row: Mapping[str, Any]) -> bool:
    """Whether the row says that its message goes on in another record."""
    is_carried = row["out"] == "superseded" or (row["suc"] is not None and row["out"] in ENDS)
    return is_carried and row["rsn"] != "replaced"


def first_id(name: str | None) -> str | None:
    return name and name.partition("~")[0]


def differences(shard: Shard, history: Sequence[Fact], records: Sequence[LogRecord], seen: Counter[str]) -> list[str]:
    facts, rows = account(shard, records), rows_of(shard, history)
    said = Counter(row["off"] for row in rows)
    accepted = {first_id(fact.id) for fact in facts.values() if fact.kind == MESSAGE and fact.replaces is None}
    found = [f"{offset} has {said[offset]} rows: {facts.get(offset)}" for offset in facts | said if said[offset] != 1]
    for row in rows:
        fact = facts.get(row["off"])
        expected = fact and (fact.id, fact.due_ms, fact.accepted_ms)
        if expected != (row["id"], row["due"], row["acc"]):
            found.append(f"{row} is {fact}")
        if fact and (fact.kind == MESSAGE) != (row["out"] in (*ENDS, "duplicate")):
            found.append(f"{row} is no outcome of {fact}")
        if (row["out"] == "duplicate" or row["rsn"] == "replaced") and row["suc"] not in accepted:
            found.append(f"{row} names a message that nobody accepted")
        goes_on = ", goes on" if carries_on(row) else ""
        seen[f"{fact.kind if fact else None}: {row['out']} {row['rsn']}{goes_on}"] += 1
    links = Counter(
        (fact.replaces, fact.id, first_id(fact.id)) for fact in facts.values() if fact.replaces is not None
    )
    carried = Counter(
        (Key(row["due"], row["off"]), row["suc"], first_id(row["id"])) for row in rows if carries_on(row)
    )
    uneven = (links - carried) | (carried - links)
    return found + [f"{links[key]} links, {carried[key]} rows carry {key} on" for key in uneven]


def test_every_record_has_one_outcome_row_as_read_and_every_link_a_row_that_carries_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[str] = Counter()
    found: list[str] = []
    for seed in range(SEEDS):
        world, history, logs = run(seed, monkeypatch)
        if world.stalls.happen:
            continue
        for shard, partition in world.scene.broker.partitions.items():
            found += [
                f"seed {seed}: {text}" for text in differences(shard, history, logs.get(id(partition), []), seen)
            ]
    assert found[:5] == []
    assert [situation for situation in SITUATIONS if not seen[situation]] == []
