"""Several files that count together, and a watcher of several of them. One file alone: tests/unit/api/access."""

from pathlib import Path

import pytest

from delayline.errors import ConfigError
from delayline.process import threads
from delayline.process.watched import Watched, Watcher


def test_files_that_go_together_are_read_once_all_of_them_stay_as_they_are(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text("1")
    read = Watched(paths, lambda: "".join(path.read_text() for path in paths))
    paths[0].write_text("22")
    read.look()
    paths[1].write_text("22")
    read.look()
    assert read.content == "11", "one of them has just changed"
    read.look()
    assert read.content == "2222"


def test_a_file_whose_reading_fails_as_never_before_keeps_no_other_from_being_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("1")
    watcher, failing = Watcher(), [False]

    def read() -> str:
        if failing[0]:
            raise RuntimeError("a bug of a library")
        return path.read_text()

    bad, good = watcher.watch(Watched([path], read)), watcher.watch(Watched([path], path.read_text))
    failing[0] = True
    path.write_text("22")
    before = threads.failures().get("files", 0)
    for _ in range(2):
        watcher.look()
    assert (bad.content, good.content) == ("1", "22")
    assert threads.failures()["files"] > before


def test_at_the_start_a_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        Watched([tmp_path / "none"], lambda: "")
