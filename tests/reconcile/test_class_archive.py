"""`delayline reconcile prepare` in a Java of its own, and starts with what it has made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

PREPARE = """
import sys
sys.prefix = sys.argv[1]
from delayline.clock import SystemClock
from reconcile.entry import make_ready
print(make_ready(SystemClock()))
"""

START = """
import sys
sys.prefix = sys.argv[1]
from reconcile.spark.class_archive import java_options
from reconcile.spark.session import open_session
spark = open_session("local[1]", java_options=java_options() + f" -Xlog:class+load:file={sys.argv[2]}")
print(spark.sql("select 6 * 7 as answer").collect()[0].answer)
"""


def _python(script: str, *given: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, given)]
    # Java takes no archive with a folder of settings on its class path.
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("java") is None:
        pytest.skip("no Spark: there is no java on the path")
    prefix = tmp_path_factory.mktemp("prefix")
    done = _python(PREPARE, prefix)
    assert done.stderr == ""
    assert Path(done.stdout.strip()).parent == prefix / "share" / "delayline"
    return prefix


def test_nothing_but_the_archive_is_left_behind(prepared: Path) -> None:
    assert [path.suffix for path in (prepared / "share" / "delayline").iterdir()] == [".jsa"]


def test_spark_takes_thousands_of_its_classes_from_the_archive(prepared: Path, tmp_path: Path) -> None:
    done = _python(START, prepared, tmp_path / "loaded")
    assert done.stdout.strip() == "42"
    assert (tmp_path / "loaded").read_text().count("shared objects file (top)") > 3000


@pytest.mark.parametrize("damage", ["cut", "emptied", "of something else"])
def test_a_damaged_archive_is_left_aside_without_a_word(prepared: Path, tmp_path: Path, damage: str) -> None:
    whole = next((prepared / "share" / "delayline").iterdir())
    other = tmp_path / "share" / "delayline" / whole.name
    other.parent.mkdir(parents=True)
    size = whole.stat().st_size
    kept = {"cut": whole.read_bytes()[:50_000_000], "emptied": b"", "of something else": b"x" * size}
    other.write_bytes(kept[damage])
    done = _python(START, tmp_path, tmp_path / "loaded")
    assert (done.stdout.strip(), done.stderr) == ("42", "")
    assert (tmp_path / "loaded").read_text().count("shared objects file (top)") == 0
