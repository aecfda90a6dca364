"""docs/formats/reconcile.md describes what the job writes."""

import re
from pathlib import Path

import msgspec
import pytest
from pyspark.sql.types import StructType

from delayline.buffer import facts as buffer_facts
from delayline.schedule.rules import Rules
from reconcile.frames.schemas import ACCEPTED, DELIVERED, DONE, FINDINGS, MALFORMED, WINDOWS
from reconcile.logic import documents
from reconcile.readers.parquet import ARCHIVE, ARCHIVE_VERSION, MARKS, SKIPS, Archive
from reconcile.report.repair_plan import RepairPlan, decode_repair_plan, encode_repair_plan
from reconcile.spark.cells import CELLS, LINKS
from reconcile.spark.pairing import ACTS, MOVED

FORMATS = Path(__file__).resolve().parents[4] / "docs" / "formats"
PAGE = (FORMATS / "reconcile.md").read_text()
ROWS = dict(re.findall(r"^\| `(\S+)` \| (`.+`) \|$", PAGE, re.MULTILINE))
OF_ARCHIVES = (FORMATS / "archive.md").read_text()


@pytest.mark.parametrize(
    ("folder", "schema"),
    [
        ("stage/run=<run>/accepted/hour=<hour>", ACCEPTED),
        ("stage/run=<run>/links/hour=<hour>", LINKS),
        ("stage/run=<run>/done/lot=<lot>/hour=<hour>", DONE),
        ("stage/run=<run>/acts", ACTS),
        ("stage/run=<run>/moved", MOVED),
        ("stage/run=<run>/unpaired", FINDINGS),
        ("malformed/run=<run>", MALFORMED),
        ("cells/run=<run>/hour=<hour>", CELLS),
        ("findings/run=<run>", FINDINGS),
        ("windows/run=<run>", WINDOWS),
    ],
)
def test_the_page_names_the_columns_that_are_written(folder: str, schema: StructType) -> None:
    assert re.findall(r"`(\w+)`", ROWS[folder]) == schema.fieldNames()


def test_the_page_shows_a_repair_plan_that_can_be_read() -> None:
    block = re.search(r"```json repair-plan\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    plan = decode_repair_plan(block[1].encode())
    assert msgspec.json.decode(encode_repair_plan(plan)) == msgspec.json.decode(block[1])
    assert all(f"`{name}`" in PAGE or f'"{name}"' in PAGE for name in RepairPlan.__struct_fields__)


@pytest.mark.parametrize(
    ("folder", "schema"),
    [
        ("accepted", ACCEPTED),
        ("done", DONE),
        ("marks", MARKS),
        ("skips", SKIPS),
        ("malformed", MALFORMED),
        ("delivered", DELIVERED),
    ],
)
def test_the_page_names_the_columns_of_an_archive_and_their_types(folder: str, schema: StructType) -> None:
    (columns,) = re.findall(rf"^\| `{folder}/` \| .+ \| (.+) \|$", OF_ARCHIVES, re.MULTILINE)
    types = {"int": "int", "bigint": "long", "string": "text"}
    known = [f"`{one.name}` {types[one.dataType.simpleString()]}{'?' * one.nullable}" for one in schema]
    assert columns.split(", ") == known


def test_the_page_names_the_kinds_of_records_in_an_archive() -> None:
    (kinds,) = re.findall(r"`kind` is one of (.+?);", OF_ARCHIVES)
    known = {getattr(buffer_facts, name) for name in ("MESSAGE", "OPERATION", "CONTROL", "DECISION", "RULES")}
    assert set(re.findall(r"`(\w+)`", kinds)) == known


def test_the_page_shows_what_an_archive_describes() -> None:
    block = re.search(r"```json archive\n(.*?)```", OF_ARCHIVES, re.DOTALL)
    assert block is not None
    archive = documents.decode(block[1].encode(), Archive, ARCHIVE, ARCHIVE_VERSION)
    assert msgspec.json.decode(msgspec.json.encode(archive)) == msgspec.json.decode(block[1])
    assert [Rules.decode(rules.encode()).number for some in archive.rules.values() for rules in some.values()] == [1]
