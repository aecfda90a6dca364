"""The file that has lines about acts: whole lines, and a file system that may hang."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from api.http import act_stores
from api.http.act_stores import ActFile
from delayline.errors import ConfigError

WAIT_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acts.jsonl"


@pytest.fixture
def file(path: Path) -> Iterator[ActFile]:
    with closing(ActFile(path)) as opened:
        yield opened


def put(file: ActFile, line: bytes) -> None:
    file.append("ann", line).result(WAIT_S)


def test_the_line_behind_half_a_line_is_a_line(file: ActFile, path: Path) -> None:
    path.write_bytes(b'{"act":"1"}\n{"act":"2","ha')
    for number in (3, 4):
        put(file, b'{"act":"%d"}' % number)
    assert path.read_bytes() == b'{"act":"1"}\n{"act":"2","ha\n{"act":"3"}\n{"act":"4"}\n'


def test_a_line_that_the_disk_took_half_of_is_not_stored(
    file: ActFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:5]))
    with pytest.raises(OSError, match="No space left"):
        put(file, b'{"act":"1"}')
    monkeypatch.undo()
    put(file, b'{"act":"2"}')
    assert json.loads(path.read_text().splitlines()[-1]) == {"act": "2"}


def test_a_pipe_at_the_start_is_an_error_of_the_settings(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file"):
        ActFile(path)


def test_a_pipe_that_comes_later_takes_nothing_and_holds_up_nothing(file: ActFile, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        put(file, b"{}")
    path.unlink()
    put(file, b"{}")
    assert path.read_bytes() == b"{}\n"


def test_a_file_system_that_hangs_holds_up_no_caller_and_takes_a_bounded_number_of_lines(
    file: ActFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act_stores, "WAITING_MAX", 2)
    hangs, goes_on = Event(), Event()
    write = os.write

    def hanging(descriptor: int, data: bytes) -> Any:
        hangs.set()
        assert goes_on.wait(WAIT_S)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", hanging)
    first = file.append("ann", b"1")
    assert hangs.wait(WAIT_S)
    waiting = [file.append("ann", b"2") for _ in range(2)]
    with pytest.raises(OSError, match="takes nothing"):
        put(file, b"3")
    assert not first.done()
    goes_on.set()
    for future in (first, *waiting):
        future.result(WAIT_S)
    assert path.read_bytes() == b"1\n2\n2\n"
