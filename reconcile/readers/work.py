"""How Spark is made to read something with our own Python: a *work* lists its tasks, and what each gives.

A work is pickled and sent to the process that executes it, so it holds settings and no connections. It does not
travel as options of a data source: those are shown in query plans, and settings hold passwords.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mq.errors import OffsetOutOfRange, QueueError
from reconcile import errors
from reconcile.errors import CannotJudge, NoAnswer, ReconcileError
from reconcile.frames.local_frame import small

if TYPE_CHECKING:
    from pyarrow import RecordBatch

T_co = TypeVar("T_co", covariant=True)

_numbers = count()
_CAUSE = "Caused by: "
_GONE = re.compile(r"Could not read records in offset .*")
_OWN_ERROR = re.compile(r"^reconcile\.errors\.(\w+): (.*)$", re.MULTILINE)


class Work(Protocol):
    """Something to be read. `run` is called by executors, for one of `tasks` at a time."""

    @property
    def schema(self) -> StructType: ...

    @property
    def tasks(self) -> Sequence[Any]: ...

    def run(self, task: Any) -> "Iterator[RecordBatch]": ...


class _Reader(DataSourceReader):
    def __init__(self, work: Work) -> None:
        self._work = work

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(len(self._work.tasks))]

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        with translated_errors():
            yield from self._work.run(self._work.tasks[partition.value])


class _Source(DataSource):
    """Each work has a subclass of its own."""

    work: ClassVar[Work]
    title: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.title

    def schema(self) -> StructType:
        return self.work.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.work)


def frame(spark: SparkSession, work: Work) -> DataFrame:
    """What the work gives. Nothing is read yet."""
    if not work.tasks:
        return small(spark, [], work.schema)
    title = f"delayline{next(_numbers)}"
    spark.dataSource.register(type(title, (_Source,), {"work": work, "title": title}))
    return spark.read.format(title).load()


def first_sentence(error: Exception) -> str:
    """What Spark raises has pages. Of an exception of Java's the first line names only the call, and the last cause
    what is wrong."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line.removeprefix(_CAUSE) for line in map(str.strip, lines) if line.startswith(_CAUSE)]
    calls = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (causes[-1:] or calls[:1] or lines)[0].strip()


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn what a queue answers into errors of the job; those that an executor has raised come back from Spark as
    what they were. Raises ReconcileError."""
    try:
        yield
    except OffsetOutOfRange as error:
        raise CannotJudge(f"the queue does not hold what was to be read: {error}") from error
    except QueueError as error:
        raise NoAnswer(str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        if translated := _translated(str(error)):
            raise translated from error
        raise


def _translated(text: str) -> ReconcileError | None:
    """What of ours is in a traceback of an executor; its last line is what was raised. Or what Spark's own
    connector reports where offsets are gone."""
    if gone := _GONE.search(text):
        return CannotJudge(f"the queue does not hold what was to be read: {gone[0]}")
    lines = _OWN_ERROR.findall(text)
    kind = getattr(errors, lines[-1][0], None) if lines else None
    return kind(lines[-1][1]) if isinstance(kind, type) and issubclass(kind, ReconcileError) else None
