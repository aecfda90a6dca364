"""What the delay service itself writes, whatever is asked of it, has nothing wrong in it."""

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from delayline.buffer.outcome import LOW_WATER, AuditRecord, AuditRow, decode_audit
from delayline.buffer.record import encode_control
from delayline.clock import ManualClock
from delayline.records.message import Header, Shard
from delayline.records.record import decode_body
from mq.contract import Append, Audited
from reconcile.logic.ledger import Category
from reconcile.logic.plan import Read
from reconcile.readers import rows as reader_rows
from tests.reconcile.archive import TABLES, run_here
from tests.unit.delay_service.core.test_claims import HOUR, MINUTE, SECOND, delay, own, restart
from tests.unit.delay_service.harness import NAMES, Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
STEPS = 400
SEED = 20
SEEN = (
    *(("applied", "cancelled"), ("applied", "rescheduled"), ("applied", "forwarded"), ("applied", "purged")),
    *(("cancelled", "cancelled"), ("cancelled", "purged"), ("superseded", "rescheduled"), ("superseded", "replaced")),
    *(("expired", "deadline"), ("expired", "late-max"), ("unmatched", "not-pending")),
    *(("delivered", None), ("duplicate", "own-id"), ("superseded", "missed")),
)
"""Outcomes and reasons that the play must have come to: else it proves little."""


class Play:
    """Two shards of one topic, and everything that clients can ask for, by chance."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.bench = Bench(partitions=PARTITIONS, orders={"late_max_ms": 5 * MINUTE})
        self.shards = [Shard("orders", str(number)) for number in range(PARTITIONS)]
        self.ids: list[tuple[Shard, str]] = []
        self.pass_on(1)

    def carry_out(self, steps: int) -> None:
        doings = (
            *[self.send] * 8,
            *[self.cancel, self.reschedule, self.cancel_own, self.wait] * 3,
            *(self.cancel_many, self.purge, self.pause, self.new_owner),
        )
        for _ in range(steps):
            self.dice.choice(doings)()
        for _ in range(6):
            self.append_all(*[(shard, encode_control("resume")) for shard in self.shards])
            self.pass_on(HOUR)

    def go_on(self) -> None:
        """Two marks more of each shard, and something that waits: neither is its last word."""
        for shard in self.shards:
            self.bench.send(b"waits", delay(1000 * HOUR), to=shard)
        for _ in range(3):
            self.pass_on(HOUR)

    def send(self) -> None:
        wanted: list[list[Header]] = [
            [],
            [own(b"o%d" % self.dice.randrange(12))],
            [own(b"o%d" % self.dice.randrange(12)), (b"delay-on-conflict", b"replace")],
            [(b"delay-ttl", b"%dms" % self.dice.randrange(1, 2 * MINUTE))],
            [
                (b"delay-every", b"40s"),
                (b"delay-times", b"4"),
                (b"delay-missed", self.dice.choice([b"none", b"all"])),
            ],
            [(b"delay-every", b"30s"), (b"delay-times", b"3"), (b"delay-ttl", b"20s")],
        ]
        for _ in range(self.dice.randrange(1, 12)):
            shard, ms = self.dice.choice(self.shards), self.dice.randrange(1, 10 * MINUTE)
            offset = self.bench.send(b"m", delay(ms), *self.dice.choice(wanted), to=shard)
            self.ids.append((shard, f"orders.{shard.partition}.{offset}.{self.bench.clock.now_ms() + ms}"))

    def operate(self, do: bytes, ref: bytes, shard: Shard, *more: Header) -> None:
        self.bench.send(b"", (b"delay-op", do), (b"delay-ref", ref), *more, to=shard)

    def cancel(self) -> None:
        """Some where they do not belong: those are forwarded."""
        for shard, name in self.chosen(2):
            there = self.dice.choice([shard, shard, *self.shards])
            occurrence = self.dice.choice(["", "", "~1", "~2"])
            self.operate(b"cancel", f"{name}{occurrence}".encode(), there)

    def cancel_many(self) -> None:
        for shard, name in self.chosen(30):
            self.operate(b"cancel", name.encode(), shard)

    def cancel_own(self) -> None:
        self.operate(b"cancel", b"o%d" % self.dice.randrange(12), self.dice.choice(self.shards))

    def reschedule(self) -> None:
        for shard, name in self.chosen(3):
            self.operate(b"reschedule", name.encode(), shard, delay(self.dice.randrange(1, 10 * MINUTE)))

    def purge(self) -> None:
        if self.dice.random() < 0.3:
            self.append_all((self.dice.choice(self.shards), encode_control("purge")))

    def pause(self) -> None:
        kind = self.dice.choice(["pause", "resume", "resume"])
        self.append_all((self.dice.choice(self.shards), encode_control(kind)))

    def new_owner(self) -> None:
        restart(self.bench, lose_index=self.dice.random() < 0.5)

    def wait(self) -> None:
        self.pass_on(self.dice.choice([1, SECOND, 20 * SECOND, MINUTE, 3 * MINUTE]))

    def pass_on(self, ms: int) -> None:
        self.bench.clock.advance(ms)
        for shard in self.shards:  # a job that has read nothing yet: the buffers are kept
            self.bench.queue.audit_positions[shard] = Audited(0, self.bench.clock.now_ms())
        self.bench.turn(8)

    def chosen(self, most: int) -> list[tuple[Shard, str]]:
        """Of the last ones: many wait."""
        return self.dice.sample(self.ids[-60:], min(most, len(self.ids[-60:])))

    def append_all(self, *controls: tuple[Shard, bytes]) -> None:
        self.bench.queue.append(
            [Append(NAMES.buffer("orders"), shard.partition, body) for shard, body in controls]
        ).result()

    # --- what stands in the queue then

    def audited(self) -> list[tuple[int, int, AuditRecord, list[AuditRow]]]:
        """Partition and offset in the audit, the record, its rows."""
        return [
            (int(name), record.offset, *decode_audit(decode_body(record.body).value or b""))
            for name in self.bench.queue.topic(NAMES.audit).partitions
            for record in self.bench.log(NAMES.audit, name)
        ]

    def write(self, folder: Path) -> None:
        """As an archive."""
        for name in ("accepted", "done", "marks"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for shard in self.shards:
            records = self.bench.log(NAMES.buffer("orders"), shard.partition)
            read = Read("orders", int(shard.partition), 0, len(records))
            table = pa.Table.from_batches(list(reader_rows.accepted(read, [records])))
            pq.write_table(table, folder / "accepted" / f"{shard.partition}.parquet")
        done, marks = [], []
        for partition, offset, record, rows in self.audited():
            place = {
                "topic": record.topic,
                "shard": int(record.shard),
                "audit_partition": partition,
                "audit_offset": offset,
            }
            if record.kind == LOW_WATER:
                numbers = {"next": record.next, "low_ms": record.low, "pending": record.pending}
                marks.append({**place, "at_ms": record.at, **numbers})
            done += [
                {
                    **place,
                    "offset": row.offset,
                    "id": row.id,
                    "due_ms": row.due_ms,
                    "accepted_ms": row.accepted_at_ms,
                    "done_ms": record.at,
                    "outcome": row.outcome.value,
                    "successor": row.successor,
                    "reason": row.reason,
                    "epoch": record.epoch,
                }
                for row in rows
            ]
        for name, found in (("done", done), ("marks", marks)):
            pq.write_table(pa.Table.from_pylist(found, TABLES[name]), folder / name / "rows.parquet")


def test_whatever_clients_ask_for_nothing_is_found_but_what_came_late(spark: "SparkSession", tmp_path: Path) -> None:
    play = Play(SEED)
    play.carry_out(STEPS)
    seen = Counter((row.outcome.value, row.reason) for *_, rows in play.audited() for row in rows)
    assert set(SEEN) - seen.keys() == set()
    for _ in range(2):  # of what was purged, the second run knows that all marks have passed it
        play.write(tmp_path / "archive")
        found = run_here(spark, tmp_path / "archive", tmp_path / "out", ManualClock(play.bench.clock.now_ms() + HOUR))
        play.go_on()

    (orders,) = found.summary.topics
    assert [one for one in found.summary.findings if one.category != Category.LATE] == []
    assert {*orders.findings} <= {Category.LATE}
    assert orders.ledger.difference == 0
    assert orders.ledger.cancelled == seen["cancelled", "cancelled"] + seen["cancelled", "purged"]
