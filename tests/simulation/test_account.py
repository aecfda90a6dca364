"""Those who keep accounts of a buffer topic read its records as the service does: what they expect of an outcome row
is what it has, over every kind of traffic that the simulation knows but what stalls a shard: of an offset that was
skipped accounts take the operator's word (tests/reconcile/test_skipped.py)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from delayline.buffer.facts import MESSAGE, BufferFact, fact_of
from delayline.records.content import digest_of_delivered
from delayline.records.headers import DUE, ID
from delayline.records.message import Key, Shard
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import LogRecord, ShardBatch
from tests.simulation.broker import Broker, Partition
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


class Run(NamedTuple):
    """A world, what happened in it, by partition everything that was ever readable in its log, and what was delivered
    of each shard."""

    world: World
    history: list[Fact]
    logs: Mapping[int, list[LogRecord]]
    delivered: Mapping[Shard, list[bytes]]


def run(seed: int, monkeypatch: pytest.MonkeyPatch) -> Run:
    kept: dict[int, dict[int, LogRecord]] = {}
    delivered: dict[Shard, list[bytes]] = {}
    append, erase, apply = Partition.append, Partition.erase, Broker.apply

    def appending(self: Partition, at_ms: int, body: bytes) -> int:
        offset = append(self, at_ms, body)
        kept.setdefault(id(self), {})[offset] = LogRecord(offset, at_ms, body)
        return offset

    def erasing(self: Partition, offsets: Sequence[int]) -> None:
        erase(self, offsets)
        for offset in offsets:
            del kept[id(self)][offset]

    def applying(self: Broker, part: ShardBatch, sent_ms: int) -> None:
        delivered.setdefault(part.shard, []).extend(body for body, _ in part.deliveries)
        apply(self, part, sent_ms)

    with monkeypatch.context() as patch:
        patch.setattr(Broker, "apply", applying)
        patch.setattr(Partition, "append", appending)
        patch.setattr(Partition, "erase", erasing)
        world = World(seed)
        history = world.run()
    return Run(world, history, {log: list(records.values()) for log, records in kept.items()}, delivered)


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
    """Whether the row states that its message goes on in another record."""
    is_carried = row["out"] == "superseded" or (row["suc"] is not None and row["out"] in ENDS)
    return is_carried and row["rsn"] != "replaced"


def first_id(name: str | None) -> str | None:
    return name and name.partition("~")[0]


def differences(shard: Shard, history: Sequence[Fact], records: Sequence[LogRecord], seen: Counter[str]) -> list[str]:
    facts, rows = account(shard, records), rows_of(shard, history)
    counts = Counter(row["off"] for row in rows)
    accepted = {first_id(fact.id) for fact in facts.values() if fact.kind == MESSAGE and fact.replaces is None}
    found = [
        f"{offset} has {counts[offset]} rows: {facts.get(offset)}" for offset in facts | counts if counts[offset] != 1
    ]
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


def strange(facts: Mapping[int, BufferFact], delivered: Sequence[bytes]) -> list[str]:
    """What was delivered with another content or due time than the buffer's records of its id have."""
    digests = {(fact.id, fact.digest) for fact in facts.values()}
    first_due_ms: dict[str | None, list[int | None]] = {}
    for fact in facts.values():
        first_due_ms.setdefault(fact.id, []).append(fact.due_ms)
    found = []
    for body in delivered:
        headers = decode_body(body).headers
        by_name = {name: (value or b"").decode() for name, value in headers if name in (ID, DUE)}
        name, due_ms = by_name[ID], int(by_name[DUE])
        waited = [one for one in first_due_ms.get(name, ()) if one is not None]
        at_another_time = due_ms < min(waited, default=0) if "~" in name else due_ms not in waited
        if (name, digest_of_delivered(body, headers)) not in digests or at_another_time:
            found.append(f"{body!r} is no content of {name}")
    return found


def test_every_record_has_one_outcome_row_as_read_and_every_link_a_row_that_carries_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[str] = Counter()
    found: list[str] = []
    for seed in range(SEEDS):
        world, history, logs, delivered = run(seed, monkeypatch)
        if world.stalls.happen:
            continue
        for shard, partition in world.scene.broker.partitions.items():
            records, bodies = logs.get(id(partition), []), delivered.get(shard, [])
            complaints = differences(shard, history, records, seen) + strange(account(shard, records), bodies)
            found += [f"seed {seed}: {text}" for text in complaints]
            seen["delivered"] += len(bodies)
    assert found[:5] == []
    assert seen["delivered"] > SEEDS
    assert [situation for situation in SITUATIONS if not seen[situation]] == []
