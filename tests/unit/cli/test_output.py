"""How a command ends where its output cannot be written."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
import typer

from cli.main import main
from cli.output import beside_the_exit_code
from cli.run_progress import Lines
from reconcile.progress import Step


def full() -> TextIO:
    return Path("/dev/full").open("w")


def without_reader() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


@pytest.fixture(params=[full, without_reader])
def lost(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    make: Callable[[], TextIO] = request.param
    with make() as stream:
        yield stream


def test_a_command_on_a_full_disk_ends_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["delayline", "config", "check"])
    monkeypatch.setattr("sys.stdout", full())
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr().err
    assert (ended.value.code, printed) == (1, "delayline: cannot write to standard output: No space left on device\n")


def test_a_command_keeps_its_exit_code_where_its_output_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lost: TextIO
) -> None:
    monkeypatch.setattr("sys.stdout", lost)
    with beside_the_exit_code():
        typer.echo("run 1: 1 finding")
    typer.echo("more")
    assert capsys.readouterr().err.startswith("delayline: cannot write to standard output: ")


def test_an_error_of_something_else_stays_one() -> None:
    with pytest.raises(FileNotFoundError), beside_the_exit_code():
        Path("/nowhere").read_bytes()


def test_a_run_goes_on_where_nobody_reads_its_progress(monkeypatch: pytest.MonkeyPatch, lost: TextIO) -> None:
    monkeypatch.setattr(sys, "stderr", lost)
    for doing in ("counting", "judging"):
        Lines().begins(Step(doing))
