"""The question of `reconcile.spark.cells`, asked of DuckDB: counts and XORs of each window and bucket. Its hash is
another one, so that its cells cannot be compared with Spark's; what it finds can."""

from pathlib import Path

import duckdb

from reconcile.logic.ledger import BUCKETS, LATENESS_BINS, OUTCOMES, POSITION_BITS, WINDOW_MS

_PLACED = f"""
    SELECT *, coalesce(due_ms, accepted_ms) AS moment, (shard::BIGINT << {POSITION_BITS}) | "offset" AS position
    FROM read_parquet('%s')
"""
_CELL = f"topic, moment // {WINDOW_MS} AS slot, hash(position) % {BUCKETS} AS bucket"
_XORS = """
    bit_xor(position) AS p, bit_xor(moment) AS m, bit_xor(hash(position, moment)) AS plain,
    bit_xor(hash(position, moment, id)) AS full_hash
"""
_LATENESS = "CASE WHEN outcome = 'delivered' THEN done_ms - due_ms END"
_OUTCOMES = ", ".join(f"count(*) FILTER (outcome = '{name}') AS {name}" for name in OUTCOMES)
_BINS = ", ".join(
    f"count(*) FILTER (lateness < {1 << i} AND lateness >= {1 << i >> 1}) AS bin_{i}" for i in range(LATENESS_BINS)
)


def cells(folder: Path, into: Path) -> int:
    """Write the cells; how many records they miss or have too many."""
    connection = duckdb.connect(config={"threads": 2, "memory_limit": "1500MB"})
    accepted, done = (_PLACED % (folder / what / "*.parquet") for what in ("accepted", "done"))
    timed = f"SELECT *, {_LATENESS} AS lateness FROM ({done})"
    connection.execute(f"""
        COPY (
            SELECT topic, slot, bucket, a.n AS accepted, d.n AS done,
                d.* EXCLUDE (topic, slot, bucket, n, p, m, plain, full_hash),
                xor(coalesce(a.plain, 0), coalesce(d.plain, 0)) AS plain,
                xor(coalesce(a.full_hash, 0), coalesce(d.full_hash, 0)) AS full_hash
            FROM (SELECT {_CELL}, count(*) AS n, {_XORS} FROM ({accepted}) GROUP BY ALL) AS a
            FULL JOIN (
                SELECT {_CELL}, count(*) AS n, {_OUTCOMES}, {_BINS}, {_XORS} FROM ({timed}) GROUP BY ALL
            ) AS d USING (topic, slot, bucket)
        ) TO '{into}' (FORMAT parquet)
    """)
    found = connection.execute(f"SELECT count(*) FILTER (plain <> 0) FROM read_parquet('{into}')").fetchone()
    connection.close()
    assert found is not None
    return int(found[0])
