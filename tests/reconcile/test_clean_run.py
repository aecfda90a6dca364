"""What a run prints on standard error in a process of its own: our own lines, nothing of Spark's and Java's; but what
is really wrong there."""

import re
import sys
from pathlib import Path

import pytest

from tests.reconcile.installation import MINUTE_MS, NOW_MS, Installation, delivered
from tests.reconcile.test_commands import MODULE, RUN, started

STEPS = (
    "looking for low-water marks in the audit",
    *("reading the audit", "reading the buffers", "counting"),
    "judging",
)
WORDS = "|".join(STEPS)
GOES_ON = re.compile(rf"(?:{WORDS}): [\d,]+ (?:of [\d,]+ )?rows, [\d,]+ rows/s, .+ (?:so far|to go)\n")
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

WRONG = """
from reconcile.spark.session import open_session
def fail(row):
    raise ValueError("really wrong")
spark = open_session("local[1]")
try:
    spark.sparkContext.parallelize([1]).map(fail).count()
except Exception:
    print("it was raised")
"""


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """One message, which was delivered."""
    due_ms = NOW_MS + MINUTE_MS
    made = Installation(None, tmp_path, [(b"delay", b"1m")])
    made.write_audit([delivered(0, f"orders.0.0.{due_ms}", due_ms)], done_ms=due_ms + 5, next_offset=1, at_minute=10)
    return made.folder


def test_a_clean_run_prints_its_steps_and_nothing_else(installation: Path) -> None:
    flags = ["--output", "ledger", "--master", "local[1]"]
    ran = started([*RUN, *flags], installation, DELAYLINE_DATA_DIR=str(installation))
    lines = [line for line in ran.stderr.splitlines(keepends=True) if not GOES_ON.fullmatch(line)]
    assert (ran.returncode, lines) == (0, [f"{step} ...\n" for step in STEPS])
    assert ran.stdout.splitlines()[-1] == "run 1: 0 findings in 1 windows; ledger/report.html"


@pytest.mark.thorough
def test_so_does_the_module_in_log_lines(installation: Path) -> None:
    flags = ["--output", "ledger", "--master", "local[1]"]
    ran = started([*MODULE, *flags], installation, DELAYLINE_DATA_DIR=str(installation))
    events = [re.sub(rf"^{AT} \[info     \] (\w+) +\[reconcile\] ", r"\1 ", line) for line in ran.stderr.splitlines()]
    events = [event for event in events if not event.startswith("progress doing=")]  # where ten seconds have gone by
    steps = [f"step doing={repr(step) if ' ' in step else step}" for step in STEPS]
    assert (ran.returncode, events) == (0, [*steps, "run_ended exit_code=0 findings=0 run=1"])


@pytest.mark.thorough
def test_what_is_really_wrong_in_spark_is_still_heard(tmp_path: Path) -> None:
    ran = started([sys.executable, "-c", WRONG], tmp_path)
    assert ran.stdout == "it was raised\n"
    assert "ERROR Executor: Exception in task" in ran.stderr
    assert "ValueError: really wrong" in ran.stderr


@pytest.mark.thorough
def test_why_a_jvm_does_not_start_is_heard_as_well(tmp_path: Path) -> None:
    ran = started([*MODULE, "--output", "ledger", "--master", "nowhere"], tmp_path)
    assert (ran.returncode, "Spark does not start" in ran.stderr) == (64, True)
    assert "Master must either be yarn or start with" in ran.stderr
