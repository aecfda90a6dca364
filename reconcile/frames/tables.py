"""Parquet without Spark: small tables of the driver's, and how many rows there are in what Spark has written."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from reconcile.directory.files import Files

_SUFFIX = ".parquet"
_FOOTER_BYTES = 1 << 16
"""More than most footers have; a longer one is read once more."""
_SIDE_BY_SIDE = 8
"""Files that are asked for at once: an object store answers each after some 30 ms."""


def table_of(rows: Sequence[Sequence[Any]], schema: StructType) -> pa.Table:
    """Columns in the schema's order."""
    arrow = to_arrow_schema(schema)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow)


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def encode(table: pa.Table) -> bytes:
    written = BytesIO()
    pq.write_table(table, written, compression="zstd")
    return written.getvalue()


def decode(data: bytes, schema: StructType) -> pa.Table:
    """Raises ArrowException: it is no Parquet file, or has other columns."""
    return pq.read_table(BytesIO(data), columns=schema.fieldNames()).cast(to_arrow_schema(schema))


def parquet_files(files: Files, folder: str) -> Iterator[str]:
    """All below a folder."""
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if name.endswith(_SUFFIX) and not name.startswith((".", "_")):
            yield path
        elif "=" in name:
            yield from parquet_files(files, path)


def count_rows(files: Files, names: Iterable[str]) -> dict[str, int]:
    """The counts in the footers of these files. Raises OSError, ArrowException: a file is cut, or none of ours."""
    names = list(names)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return dict(zip(names, pool.map(lambda name: _rows_in(files, name), names), strict=True))


def _rows_in(files: Files, name: str) -> int:
    """The four bytes before the last four are the footer's length (Parquet format, File Format)."""
    tail = files.tail(name, _FOOTER_BYTES)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > len(tail):
        tail = files.tail(name, length)
    rows: int = pq.read_metadata(BytesIO(tail)).num_rows
    return rows
