import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from delay_service.worker import owned
from delay_service.worker.owned import Owned, State
from delayline.records.message import Shard

WORKER = Path(owned.__file__).parent
RECORDS = {kept.name for kept in fields(Owned)} - {"id"}


def writes(source: str) -> Iterator[tuple[str, str]]:
    """The record, and the class that assigns a field of it."""
    for node in ast.parse(source).body:
        for store in ast.walk(node):
            if isinstance(store, ast.Attribute) and isinstance(store.ctx, ast.Store):
                record = store.value
                name = record.attr if isinstance(record, ast.Attribute) else getattr(record, "id", "")
                if name in RECORDS:
                    yield name, getattr(node, "name", "")


def test_each_record_of_a_shard_is_written_by_exactly_one_class() -> None:
    found = defaultdict(set)
    for path in WORKER.glob("*.py"):
        for record, writer in writes(path.read_text()):
            found[record].add(writer)
    assert {record: len(found[record]) for record in RECORDS} == dict.fromkeys(RECORDS, 1), found


def test_a_shard_that_has_just_been_assigned_waits() -> None:
    assert Owned(Shard("orders", "0")).progress.state is State.WAITING
