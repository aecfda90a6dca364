"""An output directory against the target topics themselves."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delayline.clock import ManualClock
from reconcile.directory.files import LocalFiles
from reconcile.errors import CannotJudge
from reconcile.logic.ledger import HOUR_MS
from reconcile.report.summary import State, decode_summary
from reconcile.settings import JobSettings
from tests.reconcile.archive import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.spark.job import RunVerdict

MINUTE_MS = 60_000
DELIVERED = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "id": pa.string(),
        "due_ms": pa.int64(),
        "delivered_ms": pa.int64(),
        "digest": pa.int64(),
    }
)


class Place:
    """A world whose topics hold what its audit has as delivered, until something is done to them."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark = spark
        self.world = World(folder / "an archive, ä%20 [1]", "orders")
        self.out = folder / "out"
        self.copies: list[dict[str, Any]] = []

    def deliver(self) -> None:
        """Whatever the audit has delivered."""
        self.copies = []
        for kind, row in self.world.audit:
            if kind == "done" and row["outcome"] == "delivered":
                self.copy(row, row["done_ms"])

    def copy(self, row: dict[str, Any], delivered_ms: int, **fields: Any) -> None:
        same = {name: row[name] for name in ("topic", "id", "due_ms")} | {"partition": row["shard"], "digest": 1}
        self.copies.append({**same, "offset": len(self.copies), "delivered_ms": delivered_ms, **fields})

    def run(self, against: str = "audit", stamps: bool = True, **more: Any) -> "RunVerdict":
        from reconcile.readers.parquet import ParquetReader
        from reconcile.spark.against import compare
        from reconcile.spark.job import run

        self.world.write()
        (self.world.folder / "delivered").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(self.copies, DELIVERED), self.world.folder / "delivered" / "rows.parquet")
        reader = ParquetReader(self.spark, self.world.folder, "delayline")
        settings = JobSettings(output=str(self.out), against=against, **more)
        files, clock = LocalFiles(self.out), ManualClock(self.world.at_ms)
        if against == "audit":
            return run(settings, reader, files, self.spark, clock)
        verdict = compare(settings, reader, files, self.spark, clock, stamps)
        assert verdict.summary == decode_summary((self.out / "targets" / "summary.json").read_bytes())
        assert (self.out / "targets" / "report.html").exists()
        return verdict

    def found(self, **more: Any) -> list[tuple[str, str | None]]:
        return [(one.category, one.id) for one in self.run("targets", **more).summary.findings]


@pytest.fixture
def place(spark: "SparkSession", tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


@pytest.mark.thorough
def test_what_the_audit_has_as_delivered_is_looked_for_in_the_topics(place: Place) -> None:
    world = place.world
    with pytest.raises(CannotJudge, match="no ledger"):
        place.run("targets")
    sent = [world.send("orders", 0, minute * MINUTE_MS) for minute in range(1, 40)]
    cancelled = world.send("orders", 1, MINUTE_MS)
    world.end(cancelled, "cancelled")
    moved = world.reschedule(world.send("orders", 1, 2 * HOUR_MS), 5 * MINUTE_MS)
    far = world.send("orders", 1, 9 * HOUR_MS)
    world.pass_on(HOUR_MS)
    assert place.run().exit_code == 0
    place.deliver()
    assert (place.run("targets").exit_code, place.found()) == (0, [])

    place.copies = [
        copy for copy in place.copies if copy["id"] not in {sent[7]["id"], sent[11]["id"], sent[13]["id"]}
    ]
    place.copy(sent[11], sent[11]["due_ms"] + 2, digest=2)
    place.copy(sent[13], sent[13]["due_ms"] + 2, partition=1)
    place.copy(sent[9], sent[9]["due_ms"] + 2)
    place.copy(cancelled, cancelled["due_ms"] + 3)
    place.copy({**sent[0], "id": "orders.0.4000.7"}, sent[0]["due_ms"] + 4)
    place.copy(far, world.at_ms)
    assert place.run("targets").exit_code == 2
    assert place.found() == [
        ("altered", sent[11]["id"]),
        ("delivered_after_cancel", cancelled["id"]),
        ("duplicated", sent[9]["id"]),
        ("misplaced", sent[13]["id"]),
        ("missing", sent[7]["id"]),
        ("orphan", "orders.0.4000.7"),
    ]
    assert moved["id"] not in {name for _, name in place.found()}
    assert place.run("targets", threshold=6).exit_code == 0
    assert place.found(since_ms=30 * MINUTE_MS) == []
    assert decode_summary((place.out / "summary.json").read_bytes()).against == "audit"


@pytest.mark.thorough
def test_times_are_judged_only_where_they_are_those_of_deliveries(place: Place) -> None:
    row = place.world.send("orders", 0, 10 * MINUTE_MS)
    place.world.pass_on(HOUR_MS)
    place.run()
    place.copy(row, row["due_ms"] - 1)
    assert place.found() == [("early", row["id"])]
    assert place.found(stamps=False) == []


def test_what_retention_has_taken_from_a_topic_is_not_missing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from reconcile.readers.parquet import ParquetReader

    there, gone = (place.world.send("orders", shard, 10 * MINUTE_MS) for shard in (0, 1))
    place.world.pass_on(2 * HOUR_MS)
    place.run()
    assert sorted(place.found()) == sorted([("missing", there["id"]), ("missing", gone["id"])])
    kept_ms = place.world.at_ms - HOUR_MS
    monkeypatch.setattr(ParquetReader, "kept_since_ms", lambda self, topic: {1: kept_ms})
    verdict = place.run("targets")
    assert [(one.category, one.id) for one in verdict.summary.findings] == [("missing", there["id"])]
    assert verdict.summary.topics[0].state is State.UNAUDITABLE
    assert [(one.what, "partition 1 before" in one.why) for one in verdict.summary.not_judged] == [
        ("retention", True)
    ]
    place.copy(there, there["due_ms"] + 2)
    assert place.run("targets").exit_code == 3


@pytest.mark.thorough
def test_a_comparison_of_no_window_cannot_judge(place: Place) -> None:
    place.world.send("orders", 0, 60_000)
    place.world.pass_on(2 * HOUR_MS)
    place.run()
    verdict = place.run("targets", since_ms=60_000)
    assert (verdict.exit_code, [one.what for one in verdict.summary.not_judged]) == (3, ["nothing"])


@pytest.mark.thorough
def test_what_the_ledger_has_dropped_is_not_compared_and_nothing_of_it_is_an_orphan(place: Place) -> None:
    world, day_ms = place.world, 24 * HOUR_MS
    old = world.send("orders", 0, 10 * MINUTE_MS)
    world.pass_on(HOUR_MS)
    place.run()
    world.pass_on(day_ms)
    sent = world.send("orders", 0, 10 * MINUTE_MS)
    world.pass_on(HOUR_MS)
    assert place.run(keep_rows_ms=day_ms).exit_code == 0
    place.copy(sent, sent["due_ms"] + 2)
    verdict = place.run("targets", since_ms=3 * day_ms)
    assert (verdict.exit_code, [one.what for one in verdict.summary.not_judged]) == (3, ["forgotten"])
    place.copy({**sent, "id": old["id"]}, sent["due_ms"] + 2)  # as of a repeat
    assert place.found(since_ms=HOUR_MS * 2) == [("unauditable", old["id"])]
    place.copy({**sent, "id": f"orders.0.9.{sent['due_ms']}"}, sent["due_ms"] + 2)
    assert {what for what, _ in place.found(since_ms=HOUR_MS * 2)} == {"unauditable", "orphan"}


def test_what_no_run_has_read_yet_is_no_orphan(place: Place) -> None:
    world = place.world
    first = world.send("orders", 0, 10 * MINUTE_MS)
    world.pass_on(2 * HOUR_MS)
    assert place.run().exit_code == 0
    for delay_ms in (-HOUR_MS, -HOUR_MS, -2 * HOUR_MS):
        world.send("orders", 0, delay_ms)
    world.send("orders", 0, -HOUR_MS, id=f"{first['id']}~2")
    world.pass_on(MINUTE_MS)
    place.deliver()
    assert place.found() == []

    due_ms = first["due_ms"]
    strange = {
        f"orders.0.99.{due_ms}",
        f"orders.00.2.{due_ms}",
        f"mails.0.2.{due_ms}",
        f"orders.9.2.{due_ms}",
        "hello",
    }
    for name in strange:
        place.copy({**first, "id": name}, due_ms + 2)
    assert set(place.found()) == {("orphan", name) for name in strange}


def test_what_an_open_transaction_hides_is_not_missing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from reconcile.readers.parquet import ParquetReader

    seen, hidden = (place.world.send("orders", shard, 10 * MINUTE_MS) for shard in (0, 1))
    place.world.pass_on(2 * HOUR_MS)
    place.run()
    assert {name for _, name in place.found()} == {seen["id"], hidden["id"]}
    monkeypatch.setattr(ParquetReader, "hidden", lambda self, topics: {topic: [1] for topic in topics})
    verdict = place.run("targets")
    assert [(one.category, one.id) for one in verdict.summary.findings] == [("missing", seen["id"])]
    assert [(one.what, one.topic, one.why) for one in verdict.summary.not_judged] == [
        ("hidden", "orders", "an open transaction hides what was delivered into partition 1")
    ]
    place.copy(seen, seen["due_ms"] + 2)
    assert place.run("targets").exit_code == 3
