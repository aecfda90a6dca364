"""A small world whose buffers and audit are written as a Parquet archive."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from delayline.clock import Clock
from reconcile.directory.files import LocalFiles
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.plan import Buffer, Cluster, Held, Range
from reconcile.readers.parquet import Archive
from reconcile.settings import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.progress import OnStep
    from reconcile.spark.job import RunVerdict

START = 490_896 * HOUR_MS

_LONG, _INT, _TEXT = pa.int64(), pa.int32(), pa.string()
TABLES = {
    "accepted": pa.schema(
        {
            "topic": _TEXT,
            "shard": _INT,
            "offset": _LONG,
            "kind": _TEXT,
            "id": _TEXT,
            "due_ms": _LONG,
            "accepted_ms": _LONG,
            "appended_ms": _LONG,
            "replaces_due_ms": _LONG,
            "replaces_offset": _LONG,
            "rules": _TEXT,
            "asks": _TEXT,
            "ref": _TEXT,
            "expires_ms": _LONG,
            "moves_to_ms": _LONG,
            "digest": _LONG,
        }
    ),
    "done": pa.schema(
        {
            "topic": _TEXT,
            "shard": _INT,
            "offset": _LONG,
            "id": _TEXT,
            "due_ms": _LONG,
            "accepted_ms": _LONG,
            "done_ms": _LONG,
            "outcome": _TEXT,
            "successor": _TEXT,
            "reason": _TEXT,
            "epoch": _INT,
            "audit_partition": _INT,
            "audit_offset": _LONG,
        }
    ),
    "marks": pa.schema(
        {
            "topic": _TEXT,
            "shard": _INT,
            "at_ms": _LONG,
            "next": _LONG,
            "low_ms": _LONG,
            "pending": _LONG,
            "audit_partition": _INT,
            "audit_offset": _LONG,
        }
    ),
    "skips": pa.schema(
        {
            "topic": _TEXT,
            "shard": _INT,
            "first": _LONG,
            "end": _LONG,
            "at_ms": _LONG,
            "audit_partition": _INT,
            "audit_offset": _LONG,
        }
    ),
    "malformed": pa.schema({"audit_partition": _INT, "audit_offset": _LONG, "value": _TEXT, "why": _TEXT}),
}

Row = dict[str, Any]


class World:
    """Topics with shards; time passes when a test moves it."""

    def __init__(self, folder: Path, *topics: str, shards: int = 2) -> None:
        self.folder = folder
        self.at_ms = START
        self.shards = shards
        self.buffers: dict[tuple[str, int], list[Row]] = {
            (topic, shard): [] for topic in topics for shard in range(shards)
        }
        self.audit: list[tuple[str, Row]] = []
        self.done: set[tuple[str, int, int]] = set()
        self.trimmed: dict[tuple[str, int], int] = {}
        self.audit_trimmed = 0
        self.topic_ids: dict[str, str] = {}
        self.cluster = Cluster("parquet", "archive-1", "delayline")

    def send(self, topic: str, shard: int, delay_ms: int, **fields: Any) -> Row:
        buffer = self.buffers[topic, shard]
        due_ms = self.at_ms + delay_ms
        row: Row = {
            "topic": topic,
            "shard": shard,
            "offset": len(buffer),
            "kind": "message",
            "id": f"{topic}.{shard}.{len(buffer)}.{due_ms}",
            "due_ms": due_ms,
            "accepted_ms": self.at_ms,
            "appended_ms": self.at_ms,
            "digest": 1,
            **fields,
        }
        buffer.append(row)
        return row

    def end(self, row: Row, outcome: str = "delivered", **fields: Any) -> None:
        """An outcome row."""
        self.done.add((row["topic"], row["shard"], row["offset"]))
        common = {name: row[name] for name in ("topic", "shard", "offset", "id", "due_ms", "accepted_ms")}
        self.audit.append(("done", {**common, "done_ms": self.at_ms, "outcome": outcome, "epoch": 1, **fields}))

    def reschedule(self, row: Row, delay_ms: int) -> Row:
        """Carried on in a re-append."""
        again = {"id": row["id"], "replaces_due_ms": row["due_ms"], "replaces_offset": row["offset"]}
        self.end(row, "superseded", successor=row["id"])
        return self.send(row["topic"], row["shard"], delay_ms, **again)

    def skip(self, topic: str, shard: int, first: int | None, end: int, *, has_row: bool = True) -> None:
        """An operator has had these offsets passed over; `has_row`: with the outcome row of the place."""
        place = {"topic": topic, "shard": shard}
        self.audit.append(("skips", {**place, "first": first, "end": end, "at_ms": self.at_ms}))
        if first is not None and has_row:
            row: Row = {**place, "offset": first, "id": f"{topic}.{shard}.{first}.{self.at_ms}"}
            self.end(row | {"due_ms": self.at_ms, "accepted_ms": self.at_ms}, "skipped", reason="skipped")
        self.done |= {(topic, shard, offset) for offset in range(first or 0, end)}

    def garble(self, why: str = "no JSON") -> None:
        """A record of the audit that cannot be read."""
        self.audit.append(("malformed", {"value": "?", "why": why}))

    def forget(self, row: Row) -> None:
        """It never gets an outcome row."""
        self.done.add((row["topic"], row["shard"], row["offset"]))

    def pass_on(self, ms: int) -> None:
        """What is due ends, a millisecond after it is due; then every shard reports how far it is."""
        self.at_ms += ms
        for row in self._pending():
            if row["due_ms"] < self.at_ms:
                self.end(row, done_ms=max(row["due_ms"], row["appended_ms"]) + 1)
        for topic, shard in self.buffers:
            self.mark(topic, shard)

    def mark(self, topic: str, shard: int) -> None:
        pending = [row["due_ms"] for row in self._pending() if (row["topic"], row["shard"]) == (topic, shard)]
        common = {"topic": topic, "shard": shard, "at_ms": self.at_ms, "next": len(self.buffers[topic, shard])}
        self.audit.append(("marks", {**common, "low_ms": min([*pending, self.at_ms]), "pending": len(pending)}))

    def _pending(self) -> list[Row]:
        rows = [row for buffer in self.buffers.values() for row in buffer]
        return [row for row in rows if (row["topic"], row["shard"], row["offset"]) not in self.done]

    def held(self) -> Held:
        buffers: dict[str, Buffer] = {}
        for (topic, shard), rows in self.buffers.items():
            buffer = buffers.setdefault(topic, Buffer(self.topic_ids.get(topic, "1"), {}))
            buffer.shards[shard] = Range(self.trimmed.get((topic, shard), 0), len(rows))
        return Held(self.at_ms, "1", {0: Range(self.audit_trimmed, len(self.audit))}, buffers)

    def write(self) -> None:
        """The archive as it is now, without what has been trimmed."""
        held = self.held()
        placed = [
            (kind, row | {"audit_partition": 0, "audit_offset": offset})
            for offset, (kind, row) in enumerate(self.audit)
            if offset >= self.audit_trimmed
        ]
        rows = {
            "accepted": [
                row
                for (topic, shard), buffer in self.buffers.items()
                for row in buffer[held.buffers[topic].shards[shard].start :]
            ],
            **{name: [row for kind, row in placed if kind == name] for name in TABLES if name != "accepted"},
        }
        for name, schema in TABLES.items():
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows[name], schema), self.folder / name / "rows.parquet")
        (self.folder / "archive.json").write_bytes(msgspec.json.encode(Archive(cluster=self.cluster, held=held)))


def hold_nothing_yet(archive: Path, starts: Mapping[tuple[str, int], int], at_ms: int) -> Path:
    """A run over the archive reads none of its rows, as of these shards (topic, number) and first offsets; until
    the file that this writes is deleted."""
    buffers: dict[str, Buffer] = {}
    for (topic, shard), start in starts.items():
        buffers.setdefault(topic, Buffer("archive", {})).shards[shard] = Range(start, start)
    path = archive / "archive.json"
    path.write_bytes(msgspec.json.encode(Archive(held=Held(at_ms, "archive", {0: Range(0, 0)}, buffers))))
    return path


def run_here(
    spark: "SparkSession",
    archive: Path,
    output: Path,
    clock: Clock,
    threshold: int = 0,
    on_step: "OnStep" = lambda step: None,
    keep_rows_ms: int | None = None,
) -> "RunVerdict":
    """A run of the job in this process, over an archive, with the files of this machine."""
    from reconcile.readers.parquet import ParquetReader
    from reconcile.spark.job import run

    reader = ParquetReader(spark, archive, "delayline")
    settings = JobSettings(output=str(output), threshold=threshold, keep_rows_ms=keep_rows_ms)
    return run(settings, reader, LocalFiles(output), spark, clock, on_step)
