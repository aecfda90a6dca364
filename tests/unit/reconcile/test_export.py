"""Findings and windows as Delta tables: each run comes there once, whole, whatever happens. The ledgers are made
without Spark, and the tables are read by Delta's own library."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace
from pyspark.sql.pandas.types import to_arrow_schema

from cli.main import main
from delayline.errors import ConfigError
from reconcile import export as exporting
from reconcile.errors import BadInput, OtherCluster, ReconcileError
from reconcile.export import FINDINGS, TABLES, WINDOWS, Exported, export
from reconcile.frames import schemas
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.manifest import Manifest, encode
from reconcile.logic.plan import Cluster

HOUR = 490_896
CLUSTER = Cluster("kafka", "MkU3OEVBNTcwNTJENDM2Qk", "delayline")

Row = dict[str, Any]


class Ledger:
    """A directory as runs leave it, in so far as an export looks at it."""

    def __init__(self, folder: Path, begun_ms: int = HOUR * HOUR_MS, cluster: Cluster = CLUSTER) -> None:
        self.folder, self.begun_ms, self.cluster = folder, begun_ms, cluster
        self.run = 0

    def add(self, findings: Sequence[str], windows: int) -> None:
        """A run that has found these ids missing, and judged so many windows in each of two hours."""
        run = self.start(findings, windows)
        written = {f"findings/run={run}": len(findings)} if findings else {}
        for hour in (HOUR, HOUR + 1):
            if windows:
                written[f"windows/run={run}/hour={hour}"] = windows
        at_ms = self.begun_ms + (run - 1) * 900_000
        manifest = Manifest(run=run, cluster=self.cluster, at_ms=at_ms, audit_topic_id="1", written=written)
        (self.folder / f"manifest-{run}.json").write_bytes(encode(manifest))
        self.run = run

    def start(self, findings: Sequence[str], windows: int) -> int:
        """The rows of the run alone."""
        run = self.run + 1
        place = {"run": run, "topic": "orders", "window_ms": HOUR * HOUR_MS, "category": "missing", "surplus": 0}
        rows = [{**place, "id": name, "shard": 0, "offset": number} for number, name in enumerate(findings)]
        self._write(f"findings/run={run}", rows, FINDINGS)
        for hour in (HOUR, HOUR + 1):
            self._write(f"windows/run={run}/hour={hour}", [_window(run, hour, n) for n in range(windows)], WINDOWS)
        return run

    def _write(self, name: str, rows: Sequence[Row], schema: pa.Schema) -> None:
        """As Spark does, which marks a folder and keeps sums beside its files."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").touch()
        (folder / ".part-0.parquet.crc").write_bytes(b"crc")
        if rows:
            pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / "part-0.parquet")


def _window(run: int, hour: int, number: int) -> Row:
    row: Row = {field.name: number for field in WINDOWS if field.type in (pa.int64(), pa.int32())}
    moment = hour * HOUR_MS + number * WINDOW_MS
    return row | {"topic": "orders", "window_ms": moment, "version": 1, "run": run, "lateness": [1, 2, None]}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three runs: two findings and four windows, nothing at all, one finding and two windows."""
    made = Ledger(tmp_path / "ledger")
    made.add(["a", "b"], 2)
    made.add([], 0)
    made.add(["c"], 1)
    return made


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def exported(ledger: Ledger, tables: Path) -> list[Exported]:
    done: list[Exported] = []
    export(ledger.folder, str(tables), done.append)
    return done


def rows(tables: Path, name: str) -> list[Row]:
    found: list[Row] = DeltaTable(tables / name).to_pyarrow_table().to_pylist()
    return found


def ids(tables: Path) -> dict[tuple[int, str], int]:
    return dict(Counter((row["run"], row["id"]) for row in rows(tables, "findings")))


def windows(tables: Path) -> dict[int, int]:
    """How many there are, by run; each must be another one."""
    found = rows(tables, "windows")
    assert len({(row["run"], row["window_ms"]) for row in found}) == len(found)
    return dict(Counter(row["run"] for row in found))


@pytest.mark.parametrize(("ours", "theirs"), [(FINDINGS, schemas.FINDINGS), (WINDOWS, schemas.WINDOWS)])
def test_the_columns_are_those_that_the_job_writes(ours: pa.Schema, theirs: Any) -> None:
    spark = to_arrow_schema(theirs)
    assert ours.names == spark.names
    assert [str(field.type).replace("item", "element") for field in ours] == [
        str(field.type).replace("item", "element").replace(" not null", "") for field in spark
    ]


# --- what comes there


def test_every_run_comes_to_the_tables(ledger: Ledger, tables: Path) -> None:
    assert exported(ledger, tables) == [Exported("findings", 1, 3, 3), Exported("windows", 1, 3, 6)]
    assert ids(tables) == {(1, "a"): 1, (1, "b"): 1, (3, "c"): 1}
    assert windows(tables) == {1: 4, 3: 2}
    (row,) = (row for row in rows(tables, "windows") if row["run"] == 3 and row["window_ms"] == HOUR * HOUR_MS)
    assert (row["lateness"], row["topic"], row["missing"]) == ([1, 2, None], "orders", 0)


def test_the_same_again_adds_nothing_and_a_new_run_itself(ledger: Ledger, tables: Path) -> None:
    exported(ledger, tables)
    assert exported(ledger, tables) == []
    ledger.add(["d"], 3)
    assert exported(ledger, tables) == [Exported("findings", 4, 4, 1), Exported("windows", 4, 4, 6)]
    assert ids(tables)[4, "d"] == 1
    assert windows(tables) == {1: 4, 3: 2, 4: 6}


def test_tables_are_there_before_anything_is_found(tmp_path: Path, tables: Path) -> None:
    clean = Ledger(tmp_path / "ledger")
    clean.add([], 0)
    exported(clean, tables)
    for name, schema in TABLES.items():
        assert [field.name for field in DeltaTable(tables / name).schema().fields] == schema.names
        assert rows(tables, name) == []
    assert exported(clean, tables) == []


def test_a_run_without_a_manifest_never_was(ledger: Ledger, tables: Path) -> None:
    ledger.start(["x"], 1)
    exported(ledger, tables)
    assert 4 not in windows(tables)


def test_a_long_history_is_a_few_commits(tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "RUNS_PER_COMMIT", 3)
    long = Ledger(tmp_path / "ledger")
    for number in range(8):
        long.add([str(number)], 1)
    assert [(one.first, one.last) for one in exported(long, tables) if one.table == "findings"] == [
        (1, 3),
        (4, 6),
        (7, 8),
    ]
    assert windows(tables) == dict.fromkeys(range(1, 9), 2)


def test_a_column_that_older_runs_do_not_have_comes_to_the_table(
    ledger: Ledger, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(ledger, tables)
    monkeypatch.setitem(TABLES, "findings", FINDINGS.append(pa.field("more", pa.int64())))
    ledger.add(["d"], 0)
    exported(ledger, tables)
    assert {row["id"]: row["more"] for row in rows(tables, "findings")} == dict.fromkeys("abcd")


# --- killed, and two at once

KILLED = """
import os, signal, sys
from pathlib import Path
from reconcile import export
commits, wanted, write = 0, float(sys.argv[3]), export.write_deltalake
def mortal(*given, **named):
    global commits
    commits += 0.5
    if commits == wanted:
        list(given[1])   # what a writer would have read
        os.kill(os.getpid(), signal.SIGKILL)
    write(*given, **named)
    commits += 0.5
    if commits == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
export.write_deltalake, export.RUNS_PER_COMMIT = mortal, 1
export.export(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", [0.5, 1, 1.5, 3, 4.5, 5])
def test_an_export_that_is_killed_loses_nothing_and_doubles_nothing(
    ledger: Ledger, tables: Path, when: float
) -> None:
    """At a half before a commit, at a whole number behind it."""
    command = [sys.executable, "-c", KILLED, str(ledger.folder), str(tables), str(when)]
    assert subprocess.run(command, cwd=Path(exporting.__file__).parents[1]).returncode == -signal.SIGKILL
    assert sum(DeltaTable(tables / name).version() for name in TABLES) == int(when), "version 0 is the empty table"
    exported(ledger, tables)
    assert ids(tables) == {(1, "a"): 1, (1, "b"): 1, (3, "c"): 1}
    assert windows(tables) == {1: 4, 3: 2}


def test_an_export_that_another_one_has_overtaken_is_reported_and_doubles_nothing(
    ledger: Ledger, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(ledger, tables)
    ledger.add(["d"], 1)
    write = exporting.write_deltalake  # type: ignore[attr-defined]

    def overtaken(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(exporting, "write_deltalake", write)
        exported(ledger, tables)
        write(*given, **named)

    monkeypatch.setattr(exporting, "write_deltalake", overtaken)
    with pytest.raises(ReconcileError, match="another process has written into it"):
        exported(ledger, tables)
    assert ids(tables)[4, "d"] == 1
    assert windows(tables)[4] == 2


# --- what is refused


def test_rows_that_are_not_as_many_as_the_run_has_written_come_nowhere(ledger: Ledger, tables: Path) -> None:
    (file,) = (ledger.folder / "findings/run=3").glob("*.parquet")
    kept = file.read_bytes()
    file.unlink()
    with pytest.raises(BadInput, match=r"findings/run=3: 1 rows were written, and 0 are there: put the folder back"):
        exported(ledger, tables)
    assert ids(tables) == {}
    file.write_bytes(kept)
    exported(ledger, tables)
    assert len(ids(tables)) == 3


@pytest.mark.parametrize("damage", [b"", b"PAR1 and no more"])
def test_a_file_that_is_damaged_is_named(ledger: Ledger, tables: Path, damage: bytes) -> None:
    (file,) = (ledger.folder / "findings/run=3").glob("*.parquet")
    file.write_bytes(damage)
    with pytest.raises(BadInput, match=r"part-0\.parquet cannot be read"):
        exported(ledger, tables)


def test_a_file_with_damaged_rows_comes_nowhere(ledger: Ledger, tables: Path) -> None:
    """Its footer is whole, so that only who reads the rows sees it."""
    (file,) = (ledger.folder / "findings/run=1").glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(200) + whole[204:])
    with pytest.raises(ReconcileError):
        exported(ledger, tables)
    file.write_bytes(whole)
    exported(ledger, tables)
    assert ids(tables) == {(1, "a"): 1, (1, "b"): 1, (3, "c"): 1}


@pytest.mark.parametrize("other", [{"begun_ms": 0}, {"cluster": replace(CLUSTER, namespace="other")}])
def test_a_table_is_of_one_ledger(ledger: Ledger, tables: Path, tmp_path: Path, other: dict[str, Any]) -> None:
    exported(ledger, tables)
    another = Ledger(tmp_path / "another", **other)
    another.add(["z"], 1)
    with pytest.raises(OtherCluster) as refused:
        exported(another, tables)
    assert "the table of delayline ledger of kafka 'MkU3OEVBNTcwNTJENDM2Qk', namespace 'delayline', begun " in str(
        refused.value
    )
    assert len(ids(tables)) == 3


def test_a_ledger_that_was_put_back_from_an_older_copy_is_refused(ledger: Ledger, tables: Path) -> None:
    exported(ledger, tables)
    (ledger.folder / "manifest-3.json").unlink()
    with pytest.raises(BadInput, match="has runs up to 3, and the ledger ends with run 2: it is an older copy"):
        exported(ledger, tables)


@pytest.mark.parametrize("where", ["ledger", "ledger/tables"])
def test_tables_do_not_lie_in_the_ledger(ledger: Ledger, tmp_path: Path, where: str) -> None:
    with pytest.raises(ConfigError, match="is in the ledger"):
        export(ledger.folder, str(tmp_path / where))


def test_what_is_no_ledger_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no run that has ended"):
        export(tmp_path / "nowhere", str(tmp_path / "tables"))
    with pytest.raises(ConfigError, match="must be a folder of this machine"):
        export(Path("s3a://bucket/ledger"), str(tmp_path / "tables"))


# --- the command


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["delayline", "reconcile", "export", *arguments])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_the_command_prints_what_it_has_done(
    ledger: Ledger, tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, str(ledger.folder), "--to", str(tables)) == 0
    assert capsys.readouterr().out == "findings: 3 rows of runs 1 to 3\nwindows: 6 rows of runs 1 to 3\n"
    assert command(monkeypatch, str(ledger.folder), "--to", str(tables)) == 0
    assert capsys.readouterr().out == "nothing new\n"
    assert command(monkeypatch, str(tables), "--to", str(ledger.folder)) == 1
    assert "has no run that has ended" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_needs_neither_java_nor_spark(ledger: Ledger, tables: Path, tmp_path: Path) -> None:
    for package in ("pyspark", "py4j", "pandas"):
        (tmp_path / f"{package}.py").write_text("raise ModuleNotFoundError(name='it is not to be needed')")
    program = [str(Path(sys.executable).with_name("delayline")), "reconcile", "export"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "JAVA_HOME": "", "PATH": ""}
    ran = subprocess.run([*program, str(ledger.folder), "--to", str(tables)], env=environment, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert len(ids(tables)) == 3


@pytest.mark.slow
def test_without_its_package_the_command_names_what_installs_it(ledger: Ledger, tables: Path, tmp_path: Path) -> None:
    (tmp_path / "deltalake.py").write_text("raise ModuleNotFoundError(name='deltalake')")
    program = [str(Path(sys.executable).with_name("delayline")), "reconcile", "export"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([*program, str(ledger.folder), "--to", str(tables)], env=environment, capture_output=True)
    assert b"needs the package deltalake; `make reconcile-export` installs what it needs." in ran.stderr
