"""Files of rules and keys that change, vanish, and are half written."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from api.access.files import AccessFiles, RulesFile
from delayline.access.acts import Act
from delayline.access.keys import AccessKey, AccessKeys
from delayline.access.rules import read_quotas
from delayline.errors import ConfigError
from delayline.process import watched
from delayline.process.watched import Watcher
from tests.acceptance.asking import wait_for
from tests.unit.api.access.held import QUICK, allowing

KEY = AccessKey("abcdefghijklmnop", "ann", QUICK.hash("x"), 0)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.rules_file, self.keys_file = folder / "rules.toml", folder / "keys.json"
        self.rules_file.write_text(allowing("ann", "send"))
        self.keys_file.write_bytes(AccessKeys([KEY]).encoded())
        self.registry = CollectorRegistry()
        self.watcher = Watcher()
        self.files = AccessFiles(self.rules_file, self.keys_file, self.watcher, self.registry)

    def may_send(self) -> bool:
        return self.files.rules.deciding(("ann",), Act.SEND, "orders") is not None

    def look(self) -> None:
        """Twice: what has changed must stay as it is."""
        for _ in range(2):
            self.watcher.look()

    def broken(self, file: str) -> float | None:
        return self.registry.get_sample_value("delayline_access_file_broken", {"file": file})


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_file_is_read_again_once_it_stays_as_it_is(scene: Scene) -> None:
    assert scene.may_send()
    scene.rules_file.write_text(allowing("bob", "send"))
    scene.watcher.look()
    assert scene.may_send()
    scene.watcher.look()
    assert not scene.may_send()


def test_quotas_alone_are_read_again_and_a_rule_among_them_changes_nothing(tmp_path: Path) -> None:
    path, registry = tmp_path / "rules.toml", CollectorRegistry()
    path.write_text("[[quota]]\nprincipals = ['ann']\nrequests_per_second = 1\n")
    watcher = Watcher()
    file = RulesFile(path, read_quotas, watcher, registry)
    another = "[[quota]]\nprincipals = ['ann']\nrequests_per_second = 2\n"
    for text in (another, allowing("ann", "send")):
        path.write_text(text)
        for _ in range(2):
            watcher.look()
        quota = file.rules.quota_of("ann")
        assert quota is not None
        assert quota.requests is not None
        assert quota.requests.per_s == 2
    assert registry.get_sample_value("delayline_access_file_broken", {"file": "rules.toml"}) == 1


def test_a_file_that_is_written_bit_by_bit_is_not_read_in_between(scene: Scene) -> None:
    scene.rules_file.write_text(allowing("bob", "send"))
    scene.watcher.look()
    scene.rules_file.write_text(allowing("bob", "send") + allowing("ann", "send"))
    scene.watcher.look()
    assert scene.may_send()
    scene.look()
    assert scene.may_send()


def test_files_are_looked_at_also_while_nothing_is_asked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that has ended must not come back because the file breaks later."""
    monkeypatch.setattr(watched, "LOOKED_AT_S", 0.01)
    with scene.watcher:
        scene.keys_file.write_bytes(AccessKeys([]).encoded())
        wait_for(lambda: scene.files.keys.get(KEY.id), lambda key: key is None)
        scene.keys_file.write_bytes(b"[")
        wait_for(lambda: scene.broken("keys.json"), lambda broken: broken == 1)
        assert scene.files.keys.get(KEY.id) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_leaves_the_rules_as_they_were(scene: Scene, make: Callable[[Path], None]) -> None:
    scene.rules_file.unlink()
    make(scene.rules_file)
    scene.look()
    assert scene.may_send()
    assert scene.broken("rules.toml") == 1


def test_a_key_that_is_taken_out_is_gone(scene: Scene) -> None:
    assert scene.files.keys.get(KEY.id) == KEY
    scene.keys_file.write_bytes(AccessKeys([]).encoded())
    scene.look()
    assert scene.files.keys.get(KEY.id) is None


def test_a_file_put_in_the_place_of_another_is_noticed_by_its_inode(scene: Scene) -> None:
    """As Kubernetes does with secrets, and an editor: it may have the size and the time of the one before."""
    before = scene.rules_file.stat()
    other = scene.rules_file.with_name("other")
    other.write_text(allowing("bob", "send"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(scene.rules_file)
    scene.look()
    assert not scene.may_send()


@pytest.mark.parametrize(
    "content", [b"[[rule]]\nprincipals = ['*']\nacts = ['sned']", b"[[rule", b"\xff", b"", b"# all gone"]
)
def test_a_typo_leaves_the_rules_as_they_were_and_is_logged_once(
    scene: Scene, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.rules_file.write_bytes(content)
    for _ in range(3):
        scene.look()
        assert scene.may_send()
        assert scene.broken("rules.toml") == 1
    assert capsys.readouterr().out.count("stays in force") == 1
    scene.rules_file.write_text(allowing("bob", "send"))
    scene.look()
    assert not scene.may_send()
    assert scene.broken("rules.toml") == 0


def test_half_a_file_of_keys_leaves_them_as_they_were(scene: Scene) -> None:
    whole = scene.keys_file.read_bytes()
    for end in range(len(whole) - 3):
        scene.keys_file.write_bytes(whole[:end])
        scene.look()
        assert scene.files.keys.get(KEY.id) == KEY
    assert scene.broken("keys.json") == 1


def test_a_file_that_vanishes_holds_and_comes_back(scene: Scene) -> None:
    content = scene.rules_file.read_text()
    scene.rules_file.unlink()
    scene.look()
    assert scene.may_send()
    assert scene.broken("rules.toml") == 1
    scene.rules_file.write_text(content)
    scene.look()
    assert scene.may_send()
    assert scene.broken("rules.toml") == 0


def test_a_folder_that_is_away_for_a_moment_comes_back_with_the_same_file(scene: Scene) -> None:
    away = scene.rules_file.rename(scene.rules_file.with_name("away"))
    scene.look()
    assert scene.may_send()
    away.rename(scene.rules_file)
    scene.look()
    assert scene.may_send()
    assert scene.broken("rules.toml") == 0


@pytest.mark.parametrize("name", ["rules.toml", "keys.json"])
def test_at_the_start_each_file_must_be_there(scene: Scene, name: str) -> None:
    scene.rules_file.with_name(name).unlink()
    with pytest.raises(ConfigError, match=f"cannot read .*{name}: No such file"):
        AccessFiles(scene.rules_file, scene.keys_file, Watcher(), CollectorRegistry())
