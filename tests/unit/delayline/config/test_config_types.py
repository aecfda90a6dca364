"""Durations, sizes, lists, tables, secrets and levels as settings are written."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from delayline.config import types
from delayline.config.types import CommaSeparated, Duration, JsonText, Levels, Secret, Size, durations, sizes

DURATION: TypeAdapter[int] = TypeAdapter(Duration)
SIZE: TypeAdapter[int] = TypeAdapter(Size)
LEVELS: TypeAdapter[tuple[int, ...]] = TypeAdapter(Levels)
SECRET: TypeAdapter[Any] = TypeAdapter(Secret)


@given(st.integers(0, 10**14))
def test_a_duration_is_written_as_it_is_read(duration_ms: int) -> None:
    assert DURATION.validate_python(DURATION.dump_python(duration_ms)) == duration_ms


@given(st.one_of(st.integers(0, 1 << 50), st.integers(0, 4096).map(lambda count: count << 20)))
def test_a_size_is_written_as_it_is_read(size_bytes: int) -> None:
    assert SIZE.validate_python(SIZE.dump_python(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0B", 0), ("7B", 7), ("1KiB", 1024), ("4MiB", 4 << 20), ("1kB", 1000), ("2GB", 2 * 10**9), ("1TiB", 1 << 40)],
)
def test_binary_and_decimal_units_are_distinguished(text: str, size_bytes: int) -> None:
    assert SIZE.validate_python(text) == size_bytes


@pytest.mark.parametrize("value", [5, 5.0, None, "", "5", "5 MiB", "5M", "5mb", "-5MiB", "1.5GiB", "5KB", True])
def test_a_size_without_a_unit_of_ours_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        SIZE.validate_python(value)


@pytest.mark.parametrize("value", [5, 5.0, None, "", "5", "5 s", True, "soon"])
def test_a_duration_without_a_unit_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(value)


@pytest.mark.parametrize("text", ["", "1s  2s", " 1s", "1s,2s", "0s 1s", "1s 2x", " ".join(["1s"] * 65)])
def test_levels_that_rocketmq_would_not_read_are_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        LEVELS.validate_python(text)


def test_levels_are_written_as_they_are_read() -> None:
    assert LEVELS.dump_python(LEVELS.validate_python("1s 90s 2h")) == "1s 1m30s 2h"


@pytest.mark.parametrize("text", ["2s", "60s"])
def test_both_bounds_belong_to_a_range(text: str) -> None:
    ranged: TypeAdapter[int] = TypeAdapter(Annotated[Duration, durations("2s", "60s")])
    assert ranged.dump_python(ranged.validate_python(text)) in ("2s", "1m")


@pytest.mark.parametrize("text", ["1023B", "1048577B"])
def test_outside_of_a_range_is_refused_in_its_own_units(text: str) -> None:
    ranged: TypeAdapter[int] = TypeAdapter(Annotated[Size, sizes("1KiB", "1MiB")])
    with pytest.raises(ValidationError, match="expected 1KiB to 1MiB"):
        ranged.validate_python(text)


@pytest.mark.parametrize(
    ("value", "items"), [("a, b*,c", ("a", "b*", "c")), ("", ()), (" ", ()), (["a"], ("a",)), ([], ())]
)
def test_a_list_may_be_written_with_commas(value: object, items: tuple[str, ...]) -> None:
    names: TypeAdapter[Any] = TypeAdapter(Annotated[tuple[str, ...], CommaSeparated])
    assert names.validate_python(value) == items


def test_a_table_may_be_written_as_json() -> None:
    table: TypeAdapter[Any] = TypeAdapter(Annotated[dict[str, str], JsonText])
    assert table.validate_python('{"a": "b"}') == table.validate_python({"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize("value", ["{", '["a"]', "a=b", "5", '"a"', 5])
def test_text_that_is_no_table_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Annotated[dict[str, str], JsonText]).validate_python(value)


@pytest.mark.parametrize(("value", "text"), [("s3cret", "s3cret"), (5, "5"), (True, "true"), (False, "false")])
def test_a_secret_is_the_text_that_a_client_library_expects(value: object, text: str) -> None:
    assert SECRET.validate_python(value).get_secret_value() == text


def test_a_secret_is_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret \n")
    found = SECRET.validate_python({"file": "password"}, context=tmp_path)
    assert found.get_secret_value() == "s3cret "  # without the line's end that editors add, with all else


@pytest.mark.parametrize(
    "value", [{"file": "missing"}, {"file": 5}, {"fil": "password"}, {"file": "a", "b": "c"}, {}, ["a"], None]
)
def test_a_secret_that_cannot_be_read_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValidationError):
        SECRET.validate_python(value, context=tmp_path)


def test_a_secret_file_that_is_no_text_is_refused_without_showing_it(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff\xfe")
    with pytest.raises(ValidationError, match="it is not text"):
        SECRET.validate_python({"file": "password"}, context=tmp_path)


@pytest.mark.parametrize("text", ["", "\n", "\r\n", " \n"])
def test_a_secret_file_that_gives_nothing_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "password").write_bytes(text.encode())
    with pytest.raises(ValidationError, match="the file password is empty"):
        SECRET.validate_python({"file": "password"}, context=tmp_path)


def test_one_line_break_at_the_end_of_a_secret_file_is_ignored_however_it_is_written(tmp_path: Path) -> None:
    for end in ("", "\n", "\r\n"):
        (tmp_path / "password").write_bytes(f"s3cret{end}".encode())
        assert SECRET.validate_python({"file": "password"}, context=tmp_path).get_secret_value() == "s3cret"


def test_a_secret_file_may_have_64_kib_and_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("x" * 65536)
    (tmp_path / "password").symlink_to("target")
    assert len(SECRET.validate_python({"file": "password"}, context=tmp_path).get_secret_value()) == 65536
    (tmp_path / "target").write_text("x" * 65537)
    with pytest.raises(ValidationError, match="password: it has more than 65536 bytes"):
        SECRET.validate_python({"file": "password"}, context=tmp_path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, "is a pipe"),
        (os.mkdir, "is a folder"),
        (lambda path: os.symlink("/dev/zero", path), "is a device"),
        (lambda path: os.symlink("/nowhere", path), "is a link that leads nowhere"),
    ],
)
def test_what_is_no_file_is_not_opened_for_a_secret(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    make(tmp_path / "password")
    with pytest.raises(ValidationError, match=f"cannot read the file password: {why}"):
        SECRET.validate_python({"file": "password"}, context=tmp_path)


# --- secrets that a command prints


def printing(*words: str) -> dict[str, list[str]]:
    return {"command": [sys.executable, "-c", *words]}


@pytest.mark.parametrize("written", [lambda table: table, json.dumps], ids=["a table", "JSON text"])
def test_a_secret_is_what_a_command_prints(tmp_path: Path, written: Any) -> None:
    table = printing("import sys; print(open('password').read() + sys.argv[1])", "$tail")
    (tmp_path / "password").write_text("s3cret ")
    assert SECRET.validate_python(written(table), context=tmp_path).get_secret_value() == "s3cret $tail"


def test_a_file_may_be_named_in_json_as_well(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret")
    found = SECRET.validate_python('{"file": "password"}', context=tmp_path)
    assert found.get_secret_value() == "s3cret"


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '{"file": "a", "b": 1}', '["command"]', "{command"])
def test_other_text_with_brackets_is_the_secret(text: str) -> None:
    assert SECRET.validate_python(text).get_secret_value() == text


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (printing("import sys; print('s3cret'); sys.exit('sealed')"), "ends with exit code 1: sealed"),
        (printing("import os; os.write(1, b's3cret' + bytes([255]))"), "what it prints is not text"),
        (printing("print('s3cret' * 100_000)"), "prints more than 65536 bytes"),
        ({"command": ["/nowhere/tool", "s3cret"]}, "the command /nowhere/tool gives no secret: No such file"),
        ({"command": []}, 'one key "file" or "command"'),
        ({"command": "echo s3cret"}, 'one key "file" or "command"'),
        ({"command": ["echo", 5]}, 'one key "file" or "command"'),
        ({"command": ["echo"], "file": "s3cret"}, 'one key "file" or "command"'),
        ({"command": [""]}, "words with a program first"),
        ({"command": ["true"]}, "the command true gives no secret: it prints nothing"),
        ({"command": ["echo"]}, "the command echo gives no secret: it prints nothing"),
    ],
)
def test_a_command_that_gives_no_secret_is_refused_without_its_output(table: object, why: str) -> None:
    with pytest.raises(ValidationError) as refused:
        SECRET.validate_python(table)
    found = refused.value.errors()[0]
    assert why in found["msg"]
    assert "s3cret" not in found["msg"]
    assert found["type"] == "secret"


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "COMMAND_S", 0.5)
    with pytest.raises(ValidationError, match=r"not ended within 0\.5 s"):
        SECRET.validate_python(printing("import time; time.sleep(600)"))
