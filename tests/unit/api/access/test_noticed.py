"""What happens to the files of rules and keys, as a server writes it down."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from api.access.files import AccessFiles
from delayline.access.keys import AccessKey, AccessKeys
from delayline.process.watched import Watcher
from tests.unit.api.access.held import QUICK, allowing

ANN = AccessKey("abcdefghijklmnop", "ann", QUICK.hash("x"), 0)
BOB = AccessKey("bbcdefghijklmnop", "ops/bob", QUICK.hash("x"), 0, 1_767_225_600_000)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.rules_file, self.keys_file = folder / "rules.toml", folder / "keys.json"
        self.rules_file.write_text(allowing("ann", "send"))
        self.have(ANN)
        self.noticed: list[tuple[str, str, str]] = []
        self.is_away = False
        self.watcher = Watcher()
        self.files = AccessFiles(self.rules_file, self.keys_file, self.watcher, CollectorRegistry(), self.notice)
        self.files.note()

    def have(self, *keys: AccessKey) -> None:
        self.keys_file.write_bytes(AccessKeys(keys).encoded())

    def notice(self, *, operation: str, source: str, detail: str) -> bool:
        if not self.is_away:
            self.noticed.append((operation, Path(source).name, detail))
        return not self.is_away

    def look(self) -> list[tuple[str, str, str]]:
        """What is new."""
        self.noticed.clear()
        for _ in range(2):
            self.watcher.look()
        self.files.note()
        return self.noticed


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def operations(noticed: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    return [(operation, source) for operation, source, _ in noticed]


def test_at_the_start_both_files_are_written_down_with_their_digests(scene: Scene) -> None:
    assert operations(scene.noticed) == [("fileRead", "rules.toml"), ("fileRead", "keys.json")]
    assert all(len(detail) == len("sha256 ") + 64 for _, _, detail in scene.noticed)
    assert scene.look() == []


def test_keys_that_are_made_changed_and_taken_out_are_written_down_without_their_hashes(scene: Scene) -> None:
    scene.have(ANN, BOB)
    file, added = scene.look()
    assert file[0] == "fileRead"
    assert added == ("keyAdded", "keys.json", f"key {BOB.id} of ops/bob, ends 2026-01-01T00:00:00.000Z")
    scene.have(replace(ANN, expires_ms=5), BOB)
    assert scene.look()[1] == ("keyChanged", "keys.json", f"key {ANN.id} of ann, ends 1970-01-01T00:00:00.005Z")
    scene.have(BOB)
    assert operations(scene.look())[1:] == [("keyRemoved", "keys.json")]


def test_other_rules_are_written_down(scene: Scene) -> None:
    scene.rules_file.write_text(allowing("bob", "send"))
    assert operations(scene.look()) == [("fileRead", "rules.toml")]


def test_what_cannot_be_written_down_holds_and_is_written_down_later(scene: Scene) -> None:
    scene.is_away = True
    scene.have(BOB)
    assert scene.look() == []
    assert scene.files.keys.get(ANN.id) is None
    scene.is_away = False
    assert operations(scene.look()) == [
        ("fileRead", "keys.json"),
        ("keyAdded", "keys.json"),
        ("keyRemoved", "keys.json"),
    ]


def test_half_a_file_is_no_change(scene: Scene) -> None:
    scene.keys_file.write_bytes(b"[")
    assert scene.look() == []
