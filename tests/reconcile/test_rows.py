"""Rows that are read are as many as were written, or the run ends and names the folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from deltalake import DeltaTable

from delayline.clock import ManualClock
from reconcile.directory.files import LocalFiles
from reconcile.directory.runs import last_manifest
from reconcile.errors import BadInput, CannotJudge
from reconcile.export import TABLES, export
from reconcile.logic.ledger import HOUR_MS
from reconcile.readers.parquet import ParquetReader
from reconcile.report.repair_plan import decode_repair_plan
from tests.reconcile.archive import World, run_here
from tests.tiers import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.spark.job import RunVerdict

MINUTE_MS = 60_000


class Ledger:
    """One run over an archive in which a message is missing and one waits; copies of it get a second run."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.world = World(folder / "archive", "orders", shards=1)
        self.world.send("orders", 0, MINUTE_MS)
        self.world.forget(self.world.send("orders", 0, MINUTE_MS))
        self.world.send("orders", 0, HOUR_MS + MINUTE_MS)
        self.world.pass_on(HOUR_MS)
        self.world.end(self.world.send("orders", 0, HOUR_MS))  # ahead: no mark speaks of it yet
        self.out = folder / "ledger"
        self.first = self.run(self.out)
        self.world.pass_on(HOUR_MS)
        self.files = {path: path.read_bytes() for path in self.out.rglob("*") if path.is_file()}

    def run(self, out: Path) -> "RunVerdict":
        self.world.write()
        return run_here(self.spark, self.world.folder, out, ManualClock(self.world.at_ms))

    def restore(self) -> None:
        shutil.rmtree(self.out)
        for path, data in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


@pytest.fixture(scope="module")
def ledger(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(spark, tmp_path_factory.mktemp("rows"))


class Copied(NamedTuple):
    """A run in a copy of the first one's directory."""

    out: Path
    verdict: "RunVerdict"


@pytest.fixture(scope="module")
def copied(ledger: Ledger) -> Copied:
    ledger.restore()
    copy = ledger.folder / "a copy [of] it #1 50%20"
    shutil.copytree(ledger.out, copy)
    return Copied(copy, ledger.run(copy))


def test_a_manifest_counts_the_rows_that_were_written_and_a_copied_directory_goes_on(
    ledger: Ledger, copied: Copied
) -> None:
    ledger.restore()
    manifest = last_manifest(LocalFiles(ledger.out))
    assert manifest is not None
    sums: dict[str, int] = {}
    for folder, count in manifest.written.items():
        sums[folder.partition("/hour=")[0]] = sums.get(folder.partition("/hour=")[0], 0) + count
    assert {name: sums[f"stage/run=1/{name}"] for name in ("accepted", "done/lot=counted", "done/lot=ahead")} == {
        "accepted": 3,
        "done/lot=counted": 1,
        "done/lot=ahead": 1,
    }
    assert sums["findings/run=1"] == 1
    second = copied.verdict
    assert (ledger.first.exit_code, second.exit_code, second.summary.run) == (2, 0, 2)
    assert second.summary.topics[0].ledger.accepted == 4
    assert second.summary.topics[0].findings == {"missing": 1}


def test_what_spark_has_written_comes_to_the_tables_of_an_export(ledger: Ledger) -> None:
    ledger.restore()
    export(ledger.out, str(ledger.folder / "tables"))
    tables = {name: DeltaTable(ledger.folder / "tables" / name).to_pyarrow_table() for name in TABLES}
    (found,) = ledger.first.summary.findings
    assert tables["findings"].select(["id", "category", "offset"]).to_pylist() == [
        {"id": found.id, "category": found.category, "offset": found.offset}
    ]
    judged = tables["windows"].to_pylist()
    assert len(judged) == ledger.first.summary.windows_judged
    assert {name: sum(row[name] for row in judged) for name in ("accepted", "delivered", "missing")} == {
        "accepted": 2,
        "delivered": 1,
        "missing": 1,
    }


def emptied(folder: Path) -> None:
    for file in folder.rglob("*.parquet"):
        file.write_bytes(b"")
    for file in folder.rglob(".*.crc"):
        file.unlink()


def cut(folder: Path) -> None:
    for file in folder.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:40])


DAMAGES = [shutil.rmtree, emptied, cut]
CELLS_OF_ONE, AHEAD_OF_ONE = "cells/run=1", "stage/run=1/done/lot=ahead"


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_rows_are_read_where_some_are_gone(
    ledger: Ledger, spark: "SparkSession", damage: Callable[[Path], None]
) -> None:
    from reconcile.frames.schemas import DONE
    from reconcile.spark.parquet_store import ParquetStore

    ledger.restore()
    damage(ledger.out / AHEAD_OF_ONE)
    with pytest.raises(BadInput, match="use another --output"):
        ParquetStore(spark, LocalFiles(ledger.out)).read(DONE, [AHEAD_OF_ONE])


@pytest.mark.parametrize(
    ("below", "damage"),
    sample([(folder, how) for folder in (CELLS_OF_ONE, AHEAD_OF_ONE) for how in DAMAGES], every=5),
)
def test_rows_that_are_gone_end_the_run(ledger: Ledger, below: str, damage: Callable[[Path], None]) -> None:
    ledger.restore()
    damage(ledger.out / below)
    with pytest.raises(BadInput, match=rf"file://{ledger.out}/{below}\S* .*use another --output") as ended:
        ledger.run(ledger.out)
    assert "\n" not in str(ended.value)
    assert not (ledger.out / "manifest-2.json").exists()
    assert not (ledger.out / "lock").exists()


def test_damage_where_a_run_does_not_look_does_no_harm(ledger: Ledger) -> None:
    ledger.restore()
    for folder in ("findings/run=1", "windows/run=1", "stage/run=1/accepted", "stage/run=1/done/lot=counted"):
        assert list((ledger.out / folder).rglob("*.parquet"))
        cut(ledger.out / folder)
    for name in ("plan-1.json", "reads-1.json", "runs/1/summary.json"):
        (ledger.out / name).write_bytes(b"?")
    assert ledger.run(ledger.out).exit_code == 0


def test_rows_of_a_run_whose_manifest_is_gone_are_not_taken_on_trust(ledger: Ledger, copied: Copied) -> None:
    (copied.out / "manifest-1.json").unlink()
    ledger.world.end(ledger.world.buffers["orders", 0][1])  # the missing one's: its window is judged again
    ledger.world.pass_on(HOUR_MS)
    with pytest.raises(BadInput, match=r"^manifest-1\.json is not there: put it back, or use another --output"):
        ledger.run(copied.out)


@pytest.mark.parametrize("side", ["accepted", "audit"])
def test_a_run_that_is_given_nothing_of_what_it_planned_is_never_clean(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    real = getattr(ParquetReader, side)

    def nothing(*given: object) -> object:
        found = real(*given)
        return found.limit(0) if side == "accepted" else type(found)(*(rows.limit(0) for rows in found))

    monkeypatch.setattr(ParquetReader, side, nothing)
    with pytest.raises(CannotJudge, match=r"partition 0, offsets 0 to \d+ had to be read; there are records"):
        ledger.run(ledger.folder / f"new-{side}")
    assert not (ledger.folder / f"new-{side}" / "manifest-1.json").exists()


def test_what_an_unreadable_audit_record_may_hold_is_not_missing_and_not_repaired(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world = World(tmp_path / "archive", "orders", shards=1)
    untold = [world.send("orders", 0, MINUTE_MS), world.send("orders", 0, 2 * HOUR_MS)]
    for row in untold:
        world.forget(row)
    world.garble("it is of another version")
    world.pass_on(HOUR_MS)
    world.write()
    out = tmp_path / "out"
    first = run_here(spark, world.folder, out, ManualClock(world.at_ms))
    assert (first.exit_code, first.summary.topics[0].findings) == (3, {"unauditable": 1})
    assert [one.what for one in first.summary.not_judged] == ["unreadable"]
    assert decode_repair_plan((out / "runs/1/repair-plan.json").read_bytes()).messages == []

    lost = world.send("orders", 0, MINUTE_MS)
    world.forget(lost)
    world.pass_on(2 * HOUR_MS)
    world.write()
    second = run_here(spark, world.folder, out, ManualClock(world.at_ms))
    assert (second.exit_code, second.summary.topics[0].findings) == (2, {"missing": 1, "unauditable": 2})
    plan = decode_repair_plan((out / "runs/2/repair-plan.json").read_bytes())
    assert [message.id for message in plan.messages] == [lost["id"]]
