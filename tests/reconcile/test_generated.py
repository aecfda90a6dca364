"""Messages with everything in them that can go right or wrong: what is found is what was put there. `make generated`
has a million of them."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.reconcile.generator import FAULTS, LATE_AFTER_MS, Fault, Truth, generate
from tests.tiers import THOROUGH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MESSAGES = int(os.environ.get("MESSAGES") or (200_000 if THOROUGH else 40_000))
SHARDS = [("orders", 0), ("orders", 1), ("mails", 0), ("mails", 1)]
FAULTS_PER_SHARD = 25
TRIMMED = {("mails", 1): MESSAGES // 25}
SEED = int(os.environ.get("SEED", "1"))


class Judged(NamedTuple):
    truths: list[Truth]
    findings: list[Any]
    unsettled: set[tuple[str, int]]
    windows: list[Any]


@pytest.fixture(scope="module")
def judged(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    from reconcile import cells, findings, judge
    from reconcile.schemas import ACCEPTED, DONE

    folder = tmp_path_factory.mktemp("generated")
    truths = [_generated(folder, topic, shard) for topic, shard in SHARDS]
    accepted = spark.read.schema(ACCEPTED).parquet(str(folder / "accepted"))
    done = _held(spark.read.schema(DONE).parquet(str(folder / "done")))
    staged = findings.Staged(accepted, _held(cells.links(accepted)), done)
    summed = cells.summed(cells.cells(*staged, LATE_AFTER_MS)).persist()
    settled = [findings.Settled(*shard, truth.settled) for shard, truth in zip(SHARDS, truths, strict=True)]
    verdicts = findings.verdicts(summed, staged, findings.Rules(1, LATE_AFTER_MS, settled)).persist()
    found = findings.findings(verdicts)
    windows = judge.windows(summed, found, 1, spark.createDataFrame([], judge.WINDOWS))
    unsettled = {(row.topic, row.window_ms) for row in findings.unsettled(verdicts).collect()}
    yield Judged(truths, found.collect(), unsettled, windows.collect())
    verdicts.unpersist()
    summed.unpersist()


def _held(rows: "DataFrame") -> "DataFrame":
    """Without what is said of records that were trimmed."""
    for (topic, shard), below in TRIMMED.items():
        rows = rows.where(f"not (topic = '{topic}' and shard = {shard} and offset < {below})")
    return rows


def _generated(folder: Path, topic: str, shard: int) -> Truth:
    trimmed = TRIMMED.get((topic, shard), 0)
    messages = MESSAGES // len(SHARDS)
    return generate(folder, topic, shard, messages, faults=FAULTS_PER_SHARD, seed=SEED, trimmed=trimmed)


def test_exactly_what_went_wrong_is_found(judged: Judged) -> None:
    injected = Counter(fault for truth in judged.truths for fault in truth.faults)
    found = Counter(Fault(row.category, row.topic, row.shard, row.offset, row.id) for row in judged.findings)
    assert found - injected == Counter(), f"SEED={SEED}: found, and not injected"
    assert injected - found == Counter(), f"SEED={SEED}: injected, and not found"
    assert len(injected) > FAULTS_PER_SHARD * len(FAULTS) * 3


def test_windows_with_a_successor_that_may_still_come_are_to_be_judged_again(judged: Judged) -> None:
    expected = set().union(*(truth.unsettled for truth in judged.truths))
    assert judged.unsettled == expected
    assert len(expected) > FAULTS_PER_SHARD


def test_each_window_counts_what_was_found_in_it(judged: Judged) -> None:
    found = Counter((row.topic, row.window_ms, row.category) for row in judged.findings)
    categories = {row.category for row in judged.findings}
    counted = {(row.topic, row.window_ms, name): row[name] for row in judged.windows for name in categories}
    assert Counter({key: count for key, count in counted.items() if count}) == found


def test_every_message_is_accounted_for(judged: Judged) -> None:
    def total(*names: str) -> int:
        return sum(row[name] for row in judged.windows for name in names)

    ends = total("delivered", "cancelled", "superseded", "expired", "dead", "duplicate")
    assert total("accepted") == sum(truth.records for truth in judged.truths)
    assert total("accepted", "surplus") - total("others") == ends + total("unanswered", "unanswered_unauditable")
    assert total("done") == sum(truth.rows for truth in judged.truths)
