"""docs/formats/reconcile.md says what the job writes."""

import re
from pathlib import Path

import msgspec
import pytest
from pyspark.sql.types import StructType

from reconcile.cells import CELLS, LINKS
from reconcile.pairing import ACTS, MOVED
from reconcile.report.repair_plan import RepairPlan, decode_repair_plan, encode_repair_plan
from reconcile.schemas import ACCEPTED, DONE, FINDINGS, MALFORMED, WINDOWS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "formats" / "reconcile.md").read_text()
ROWS = dict(re.findall(r"^\| `(\S+)` \| (`.+`) \|$", PAGE, re.MULTILINE))


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
