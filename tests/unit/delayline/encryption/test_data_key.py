"""The data key's file: who can open it, what a new key in the settings changes, and what is refused."""

import os
import pickle
import stat
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from delayline.encryption.data_key import FILE, DataKey, Stored, find_data_key, make_data_key, open_data_key
from delayline.errors import ConfigError, DelaylineError
from tests.acceptance.seen import seen

OLD, NEW, OTHER = (b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))


def opened(folder: Path, key: str = OLD, before: str = "", *, has_data: bool = True) -> DataKey | None:
    return open_data_key(folder, key, before, stored=Stored.DATA if has_data else Stored.NOTHING)


@pytest.fixture
def made(tmp_path: Path) -> DataKey:
    return make_data_key(tmp_path, OLD)


def test_a_server_without_data_makes_a_key_and_finds_it_again(tmp_path: Path) -> None:
    made = opened(tmp_path / "data", has_data=False)
    assert made is not None
    assert opened(tmp_path / "data") == find_data_key(tmp_path / "data", OLD) == made
    assert [path.name for path in (tmp_path / "data").iterdir()] == [FILE]
    assert stat.S_IMODE((tmp_path / "data" / FILE).stat().st_mode) == 0o600
    assert made.secret not in (tmp_path / "data" / FILE).read_bytes()


def test_two_servers_that_start_at_once_have_one_key(tmp_path: Path, made: DataKey) -> None:
    assert make_data_key(tmp_path, OLD) == made


def test_without_a_setting_nothing_is_encrypted_and_nothing_made(tmp_path: Path) -> None:
    assert opened(tmp_path, "") is None
    assert list(tmp_path.iterdir()) == []


def test_a_new_key_is_taken_with_the_one_before_and_then_alone(tmp_path: Path, made: DataKey) -> None:
    assert find_data_key(tmp_path, NEW, OLD) == made
    before = (tmp_path / FILE).read_bytes()
    assert opened(tmp_path, NEW, OLD) == made
    assert (tmp_path / FILE).read_bytes() != before
    assert opened(tmp_path, NEW) == made
    assert opened(tmp_path, OTHER, NEW) == opened(tmp_path, OTHER) == made
    with pytest.raises(ConfigError):
        opened(tmp_path, OLD)


def test_a_look_changes_nothing(tmp_path: Path, made: DataKey) -> None:
    before = seen(tmp_path)
    assert find_data_key(tmp_path, NEW, OLD) == made
    assert seen(tmp_path) == before


def _flip(file: Path) -> None:
    text = file.read_text()
    at = text.index('"encrypted":"') + 20
    file.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _longer_id(file: Path) -> None:
    file.write_text(file.read_text().replace('"id":"', '"id":"00'))


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _later(file: Path) -> None:
    file.write_text(file.read_text().replace('"version":1', '"version":2'))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_flip, "the file was altered"),
        (_cut, "is damaged"),
        (_longer_id, "is damaged"),
        (_pipe, "cannot be read"),
        (_later, "version 2, this program knows 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left(
    tmp_path: Path, made: DataKey, harm: Callable[[Path], None], why: str
) -> None:
    harm(tmp_path / FILE)
    before = seen(tmp_path)
    for data in (True, False):
        with pytest.raises(ConfigError, match=why):
            opened(tmp_path, has_data=data)
    assert seen(tmp_path) == before


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (("", ""), "set the key"),
        ((OTHER, ""), "it is not the key of"),
        ((OTHER, NEW), "neither store.encryption_key nor store.encryption_key_before"),
    ],
)
def test_a_missing_or_wrong_key_is_refused_and_nothing_changed(
    tmp_path: Path, made: DataKey, keys: tuple[str, str], why: str
) -> None:
    before = seen(tmp_path)
    with pytest.raises(ConfigError, match=why) as refused:
        opened(tmp_path, *keys)
    with pytest.raises(ConfigError, match=why):
        find_data_key(tmp_path, *keys)
    assert seen(tmp_path) == before
    assert not any(key and key in str(refused.value) for key in keys)


def test_data_without_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never encrypted"):
        opened(tmp_path, has_data=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["", OLD])
def test_encrypted_data_without_its_file_is_refused_and_not_to_be_encrypted_again(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=r"is encrypted, and encryption\.json is gone: put it back") as refused:
        open_data_key(tmp_path, key, stored=Stored.ENCRYPTED)
    assert "data encrypt" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_a_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"needs the package cryptography.*delayline\[encryption\]"):
        opened(tmp_path, has_data=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DelaylineError, match=r"file/data/encryption\.json cannot be written: Not a directory"):
        opened(tmp_path / "file" / "data", has_data=False)


def test_the_key_is_not_shown_and_can_go_to_another_process(made: DataKey) -> None:
    assert str(made.secret) not in f"{made!r} {made}"
    assert pickle.loads(pickle.dumps(made)) == made
