"""What `make version`, `make wheel` and `make image` rely on."""

import re
import subprocess
from pathlib import Path

import pytest

from delayline import __version__
from deploy import release
from tests.test_tidy import ROOT, tracked


def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that name the version, in a repository of their own."""
    for name in (*release.NAMING_IMAGES, "delayline/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "HOME", tmp_path / "delayline" / "__init__.py")
    for command in (
        ["init", "-q"],
        ["add", "."],
        [*["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_every_file_that_names_an_image_is_known() -> None:
    named = {name for name in tracked() if _names_an_image(name)}
    assert named == set(release.NAMING_IMAGES)


def _names_an_image(name: str) -> bool:
    if name.startswith("tests/"):
        return False
    try:
        return (
            re.search(rf"(delayline(-reconcile)?:|newTag: ){re.escape(__version__)}", (ROOT / name).read_text())
            is not None
        )
    except UnicodeDecodeError:
        return False


def test_a_new_version_stands_everywhere_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(tmp_path, monkeypatch)
    before = {name: (root / name).read_text() for name in release.NAMING_IMAGES}
    release.write("7.8.9")
    assert release.version() == "7.8.9"
    for name, text in before.items():
        changed = (root / name).read_text()
        assert __version__ not in re.findall(r"(?:delayline(?:-reconcile)?:|newTag: )(\S+)", changed)
        assert changed.replace("7.8.9", __version__) == text


@pytest.mark.parametrize("text", ["1.2", "v1.2.3", "1.2.3rc1", ""])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match="three numbers"):
        release.write(text)


@pytest.mark.parametrize(("tag", "is_refused"), [("v7.8.9", True), (f"v{__version__}", False), ("some-tag", False)])
def test_a_tag_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, is_refused: bool
) -> None:
    root = copied(tmp_path, monkeypatch)
    subprocess.run(["git", "tag", tag], cwd=root, check=True)
    if is_refused:
        with pytest.raises(SystemExit, match=r"tagged v7\.8\.9"):
            release.check()
    else:
        release.check()
