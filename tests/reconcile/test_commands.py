"""The job as it is started: `delayline reconcile run`, and `python -m reconcile` as spark-submit has it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.main import main as delayline_main
from delayline.clock import SystemClock
from delayline.errors import ConfigError
from reconcile.__main__ import main as reconcile_main
from reconcile.directory.files import LocalFiles
from reconcile.errors import CannotJudge, RunInProgress
from reconcile.settings import JobSettings
from tests.reconcile.archive import World, run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MINUTE_MS = 60_000
DELAYLINE = Path(sys.executable).with_name("delayline")
MODULE = [sys.executable, "-m", "reconcile"]
RUN = [str(DELAYLINE), "reconcile", "run"]


def started(command: list[str], cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DELAYLINE_")}
    environment: Mapping[str, str] = {**kept, **variables}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def written(folder: Path) -> World:
    """An archive in which a message is missing."""
    world = World(folder, "orders", shards=1)
    world.send("orders", 0, MINUTE_MS)
    world.forget(world.send("orders", 0, MINUTE_MS))
    world.pass_on(60 * MINUTE_MS)
    world.write()
    return world


@pytest.mark.thorough
def test_the_command_goes_on_in_the_ledger_through_the_files_of_hadoop(spark: "SparkSession", tmp_path: Path) -> None:
    world = written(tmp_path / "archive")
    ledger = tmp_path / "ledger"
    assert run_here(spark, world.folder, ledger, SystemClock()).exit_code == 2
    world.pass_on(60 * MINUTE_MS)
    world.write()
    flags = ["--reader", "parquet", "--input", "archive", "--output", ledger.as_uri(), "--master", "local[1]"]
    ran = started([*RUN, *flags, "--threshold", "0"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[-1] == f"run 2: 0 findings in 0 windows; {ledger.as_uri()}/report.html"
    assert lines[1].split()[:2] == ["orders", "judged"]
    assert "judging ...\n" in ran.stderr
    summary = json.loads((ledger / "summary.json").read_bytes())
    assert (summary["run"], summary["exit_code"], summary["topics"][0]["findings"]) == (2, 0, {"missing": 1})


@pytest.mark.parametrize("command", [RUN, MODULE])
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--reader", "kafka"], "--reader: kafka reads an installation on kafka, and mq.kind is embedded."),
        (["--reader", "kafka-connector"], "kafka-connector reads an installation on kafka, and mq.kind is embedded."),
        (["--reader", "excel"], "excel"),
        (["--late-after", "soon"], "--late-after: expected a duration such as 90s, 1h30m or PT1H, not 'soon'."),
        (["--input", "archive"], "--input: the folder of an archive goes with --reader parquet."),
        (["--threshold", "many"], "--threshold"),
        (["--no-such-option"], "--no-such-option"),
        (["--threshold", "-1"], "--threshold: it cannot be negative."),
    ],
)
def test_what_cannot_be_is_one_sentence_before_spark_starts(
    tmp_path: Path, command: list[str], flags: list[str], sentence: str
) -> None:
    ran = started([*command, "--output", "ledger", *flags], tmp_path)
    assert (ran.returncode, sentence in ran.stderr) == (64, True), ran.stderr
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize("command", [RUN, MODULE])
def test_without_java_the_job_names_what_it_needs(tmp_path: Path, command: list[str]) -> None:
    ran = started([*command, "--output", "ledger"], tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert ran.returncode == 64
    assert "the reconcile job needs Java 17, and there is no java on the path" in ran.stderr


def test_without_spark_the_job_names_what_installs_it(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError(name='pyspark')")
    ran = started([*RUN, "--output", "ledger"], tmp_path, PYTHONPATH=str(tmp_path), JAVA_HOME="/java")
    sentence = (
        "the reconcile job needs the package pyspark; `make reconcile-job` installs what it needs beside Java 17."
    )
    assert (ran.returncode, ran.stderr) == (64, f"delayline: {sentence}\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CannotJudge("it is gone"), 3),
        (RunInProgress("another run"), 1),
        (ConfigError("no such thing"), 64),
        (OSError("the disk is full"), 1),
    ],
)
def test_how_a_run_ends_that_could_not_end(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reconcile.entry.start", fail)
    monkeypatch.setattr("reconcile.__main__.start", fail)
    monkeypatch.setattr("delayline.process.logs.configure", lambda *given: None)
    assert reconcile_main(["--output", "ledger"]) == code
    monkeypatch.setattr("sys.argv", ["delayline", "reconcile", "run", "--output", "ledger"])
    with pytest.raises(SystemExit) as ended:
        delayline_main()
    assert (ended.value.code, str(error) in capsys.readouterr().err) == (code, True)


@pytest.mark.thorough
def test_what_a_run_found_and_could_not_report_the_next_run_reports(spark: "SparkSession", tmp_path: Path) -> None:
    from reconcile.readers.parquet import ParquetReader
    from reconcile.spark.job import run

    world, ledger = written(tmp_path / "archive"), tmp_path / "ledger"
    given = JobSettings(output=str(ledger)), ParquetReader(spark, world.folder, "delayline"), LocalFiles(ledger)
    assert run(*given, spark, SystemClock(), reports=True).exit_code == 2  # and then its process is killed
    second = run(*given, spark, SystemClock(), reports=True)
    assert (second.exit_code, second.summary.topics[0].fresh, second.summary.reports_from) == (2, {"missing": 1}, 1)
    second.note_reported()
    third = run(*given, spark, SystemClock())
    assert (third.exit_code, third.summary.reports_from) == (0, 3)
