"""An installation on the embedded queue, whose shard's owner is played by hand: it writes what a test passes."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit, encode_low_water
from delayline.buffer.record import Message, read
from delayline.clock import ManualClock
from delayline.names import Names
from delayline.records.message import Header, Key, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, ShardBatch
from mq.embedded.queue import EmbeddedQueue
from reconcile.directory.files import LocalFiles
from reconcile.settings import JobSettings
from tests.acceptance.asking import Ran, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.progress import OnStep
    from reconcile.spark.job import RunVerdict

NOW_MS = 1_767_225_600_000
MINUTE_MS = 60_000
NAMES = Names("delayline")
SHARD = Shard("orders", "0")


def delivered(offset: int, message_id: str, due_ms: int) -> AuditRow:
    return AuditRow(offset, message_id, due_ms, NOW_MS, Outcome.DELIVERED)


class Installation:
    """One shard, with records of these headers in its buffer, which its owner has passed; and the job's directory."""

    def __init__(self, spark: "SparkSession | None", folder: Path, *records: Sequence[Header]) -> None:
        self.spark, self.folder, self.out = spark, folder, folder / "ledger"
        bodies = [encode_body(b"k", b"hello", headers) for headers in records]
        with self.opened() as queue:
            queue.ensure_topic("orders")
            queue.ensure_buffer("orders", DEFAULT_RULES)
            queue.append([Append(NAMES.buffer("orders"), "0", body) for body in bodies]).result()
            source, sink = queue.open_worker("w")
            cursor = Cursor(topic_id=queue.takeover(SHARD).topic_id, owner_epoch=1, writer="w")
            sink.commit([ShardBatch(SHARD, cursor)])
            sink.commit([ShardBatch(SHARD, replace(cursor, next_offset=len(bodies)))])
            source.close()
            sink.close()

    @contextmanager
    def opened(self) -> Iterator[EmbeddedQueue]:
        clock = ManualClock(NOW_MS)
        opened = EmbeddedQueue.open(
            self.folder / "queue", namespace="delayline", clock=clock, partitions=1, disk_free_min_bytes=0
        )
        with closing(opened) as queue:
            yield queue

    def write_audit(self, rows: Sequence[AuditRow], *, done_ms: int, next_offset: int, at_minute: int) -> None:
        """One commit, and a mark: nothing is pending."""
        at_ms = NOW_MS + at_minute * MINUTE_MS
        bodies = [*encode_audit(SHARD, 1, done_ms, rows), encode_low_water(SHARD, 1, at_ms, next_offset, at_ms, 0)]
        with self.opened() as queue:
            queue.append([Append(NAMES.audit, "0", body) for body in bodies]).result()

    def run(self, at_minute: int, on_step: "OnStep" = lambda step: None) -> "RunVerdict":
        from reconcile.readers.embedded import EmbeddedReader
        from reconcile.spark.job import run as run_job

        assert self.spark is not None, "made without Spark"
        clock = ManualClock(NOW_MS + at_minute * MINUTE_MS)
        reader = EmbeddedReader(self.folder, "delayline", clock)
        return run_job(JobSettings(output=str(self.out)), reader, LocalFiles(self.out), self.spark, clock, on_step)

    def plan(self) -> Path:
        """The last run's, where the next one does not replace it."""
        plan = self.folder / "plan.json"
        plan.write_bytes((self.out / "repair-plan.json").read_bytes())
        return plan

    def repair(self, plan: Path) -> Ran:
        return run("reconcile", "repair", str(plan), "--apply", "--json", data_dir=str(self.folder))

    def carried_on(self) -> list[tuple[Key, int]]:
        """Of the buffer's re-appends: what each carries on, and when it is due."""
        with self.opened() as queue:
            records = queue.read(NAMES.buffer("orders"), "0", 0, 100)
            meanings = [read(one.body, one.appended_at_ms, DEFAULT_RULES) for one in records]
        found = [one for one in meanings if isinstance(one, Message)]
        return [(one.replaces, one.due_ms) for one in found if one.replaces is not None]
