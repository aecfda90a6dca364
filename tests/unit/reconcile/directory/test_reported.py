"""Which run was the last to report its result."""

import pytest

from reconcile.directory import reported
from reconcile.directory.files import MemoryFiles


def test_a_run_is_reported_once_that_is_noted() -> None:
    files = MemoryFiles()
    reported.begin(files, 0)
    assert not reported.is_reported(files, 1)
    reported.note(files, 1)
    assert reported.is_reported(files, 1)
    assert not reported.is_reported(files, 2)


def test_runs_from_before_there_was_a_note_count_as_reported() -> None:
    files = MemoryFiles()
    reported.begin(files, 7)
    assert reported.is_reported(files, 7)


def test_beginning_again_does_not_take_an_unreported_run_for_reported() -> None:
    files = MemoryFiles()
    reported.begin(files, 0)
    reported.begin(files, 1)
    assert not reported.is_reported(files, 1)


@pytest.mark.parametrize("data", [b"", b"{}", b"x", b"[" * 5000])
def test_a_note_that_cannot_be_read_lets_the_last_run_be_reported_again(data: bytes) -> None:
    files = MemoryFiles()
    files.write(reported.REPORTED, data)
    assert not reported.is_reported(files, 1)
    assert reported.is_reported(files, 0)  # before the first run there is nothing to report
