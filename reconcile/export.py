"""Findings and windows of a ledger as two Delta tables, for warehouses. Neither Java nor Spark is needed.

A commit of a table has the rows of some runs that follow each other, whole, and records in its transaction identifier
(`txn` of the Delta protocol: an application, and its own version) which run is the last one. Rows and identifier
become visible in one step, and of two commits with the same application Delta refuses the later one. So a run is in a
table once or not at all, also when exports are killed or run at once.

A table belongs to one ledger: the application's name identifies it.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from delayline.errors import ConfigError
from delayline.times import format_moment
from reconcile.directory.files import LocalFiles
from reconcile.directory.runs import last_manifest, read_manifest
from reconcile.errors import BadInput, OtherCluster, ReconcileError
from reconcile.logic.manifest import Manifest

RUNS_PER_COMMIT = 100
"""A first export of a long history makes few files; later ones have a run or two."""

_TEXTS = frozenset({"topic", "category", "id", "detail"})
_INTS = frozenset({"run", "version", "shard"})
_LISTS = frozenset({"lateness"})


def _columns(names: str) -> pa.Schema:
    return pa.schema([pa.field(name, _type(name)) for name in names.split()])


def _type(name: str) -> pa.DataType:
    if name in _LISTS:
        return pa.list_(pa.int64())
    return pa.string() if name in _TEXTS else pa.int32() if name in _INTS else pa.int64()


FINDINGS = _columns(
    "run topic window_ms category id shard offset due_ms accepted_ms done_ms lateness_ms surplus detail"
)
WINDOWS = _columns(
    "topic window_ms version run accepted others done links carried given_way delivered cancelled expired dead "
    "duplicate superseded applied unmatched skipped lateness late_max_ms cells dirty_cells missing duplicated "
    "altered misplaced early late behind_deadline wrongly_expired orphan delivered_after_cancel confirmed_in_vain "
    "unasked ended_after_skip two_outcomes wrong_outcome wrong_successor unauditable unanswered "
    "unanswered_unauditable unanswered_skipped surplus"
)
"""The columns of the rooms, by `schemas.FINDINGS` and `schemas.WINDOWS`, which are Spark's. A column that older runs
have not written is null in their rows."""

TABLES = {"findings": FINDINGS, "windows": WINDOWS}
"""In the order in which runs come to them: a reader who sees a run's windows finds its findings too."""


class Exported(NamedTuple):
    """What has come to a table: rows of the runs `first` to `last`."""

    table: str
    first: int
    last: int
    rows: int


def export(ledger: Path, to: str, on_commit: Callable[[Exported], None] = lambda done: None) -> None:
    """Append what the tables in the folder or below the URI `to` do not have yet; `on_commit` is called with each
    commit.

    Raises ConfigError, ReconcileError, OSError."""
    _check(ledger, to)
    files = LocalFiles(ledger)
    last = last_manifest(files)
    if last is None:
        raise BadInput(f"{ledger} has no run that has ended: there is no manifest-1.json")
    first = read_manifest(files, 1)
    tables = [_Table(name, to, schema, _owner(first)) for name, schema in TABLES.items()]
    for table in tables:
        if table.exported > last.run:
            raise BadInput(
                f"{table.uri} has runs up to {table.exported}, and the ledger ends with run {last.run}: it is an "
                "older copy. Take another folder for the tables"
            )
    for start in range(min(table.exported for table in tables) + 1, last.run + 1, RUNS_PER_COMMIT):
        runs = range(start, min(start + RUNS_PER_COMMIT, last.run + 1))
        manifests = [read_manifest(files, run) for run in runs]
        for table in tables:
            todo = [manifest for manifest in manifests if manifest.run > table.exported]
            if todo:
                on_commit(table.append(ledger, todo))


def _check(ledger: Path, to: str) -> None:
    """Raises ConfigError."""
    if urlsplit(str(ledger)).scheme:
        raise ConfigError(f"{ledger}: the ledger must be a folder of this machine, or one that it has mounted")
    if not urlsplit(to).scheme and Path(to).resolve().is_relative_to(ledger.resolve()):
        raise ConfigError(
            f"--to: {to} is in the ledger, where runs have folders of their own: take another one for the tables"
        )


def _owner(first: Manifest) -> str:
    """A ledger's name: its first run never changes."""
    cluster = first.cluster
    begun = format_moment(first.at_ms)
    return f"delayline ledger of {cluster.kind} {cluster.id!r}, namespace {cluster.namespace!r}, begun {begun}"


class _Table:
    """One Delta table as it was when it was opened, and as we have written it since: a commit is refused where
    another process has made one for this ledger in between. `exported`: the last run that is there."""

    def __init__(self, name: str, folder: str, schema: pa.Schema, owner: str) -> None:
        """`owner`: the ledger that it belongs to. Raises OtherCluster, ReconcileError."""
        self.name, self.uri, self._schema, self._owner = name, f"{folder.rstrip('/')}/{name}", schema, owner
        try:
            self._table = self._opened()
            exported = self._table.transaction_version(owner)
            described = self._table.metadata().description
        except DeltaError as error:
            raise ReconcileError(f"{self.uri} cannot be opened: {_sentence(error)}") from error
        if exported is None:
            raise OtherCluster(
                f"{self.uri} is the table of {described or 'another ledger'}, and this is the {owner}: take another "
                "folder for the tables"
            )
        self.exported: int = exported

    def _opened(self) -> DeltaTable:
        try:
            return DeltaTable(self.uri)
        except TableNotFoundError:
            commit = CommitProperties(app_transactions=[Transaction(self._owner, 0)])
            return DeltaTable.create(
                self.uri, Schema.from_arrow(self._schema), description=self._owner, commit_properties=commit
            )

    def append(self, ledger: Path, manifests: Sequence[Manifest]) -> Exported:
        """The rows of these runs, in one commit. Raises BadInput, ReconcileError, OSError."""
        first, last = manifests[0].run, manifests[-1].run
        folders = {folder: rows for manifest in manifests for folder, rows in self._written(manifest)}
        paths = [path for folder, rows in folders.items() for path in _files(ledger / folder, rows)]
        try:
            write_deltalake(
                self._table,
                pa.RecordBatchReader.from_batches(self._schema, self._batches(paths)),
                mode="append",
                schema_mode="merge",
                commit_properties=CommitProperties(
                    custom_metadata={"delayline.runs": f"{first}-{last}"},
                    app_transactions=[Transaction(self._owner, last)],
                ),
            )
        except CommitFailedError as error:
            why = f"{self.uri}: another process has written into it ({_sentence(error)}); repeat this"
            raise ReconcileError(why) from error
        except DeltaError as error:
            raise ReconcileError(f"{self.uri} cannot be written: {_sentence(error)}") from error
        self.exported = last
        return Exported(self.name, first, last, sum(folders.values()))

    def _written(self, manifest: Manifest) -> Iterator[tuple[str, int]]:
        """Folders of the run, and how many rows it has written there."""
        own = f"{self.name}/run={manifest.run}"
        for folder, rows in manifest.written.items():
            if folder == own or folder.startswith(f"{own}/"):
                yield folder, rows

    def _batches(self, paths: Sequence[Path]) -> Iterator[pa.RecordBatch]:
        if paths:
            yield from ds.dataset([str(path) for path in paths], schema=self._schema, format="parquet").to_batches()


def _files(folder: Path, written: int) -> list[Path]:
    """Raises BadInput: they do not hold as many rows as the run has written."""
    paths = sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")
    there = sum(_rows(path) for path in paths)
    if there != written:
        raise BadInput(f"{folder}: {written} rows were written, and {there} are there: put the folder back as it was")
    return paths


def _rows(path: Path) -> int:
    """Raises BadInput."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path} cannot be read: {_sentence(error)}: put it back as it was") from error


def _sentence(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
