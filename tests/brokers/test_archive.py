"""Archives of classes: made once, and used by what comes after."""

from pathlib import Path

import pytest

from tests.brokers import archive


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    return tmp_path / "lib"


def test_the_first_start_makes_one_and_those_after_it_use_it(lib: Path) -> None:
    before = archive.options(lib)
    archive.make_once(lib, lambda file: file.touch())
    assert before == []
    assert archive.options(lib)[0] == f"-XX:SharedArchiveFile={lib.with_name('classes.jsa')}"
    archive.make_once(lib, lambda file: pytest.fail("made again"))


def test_a_jvm_that_makes_none_is_asked_once(lib: Path) -> None:
    archive.make_once(lib, lambda file: None)
    archive.make_once(lib, lambda file: pytest.fail("asked again"))
    assert archive.options(lib) == []


def test_one_that_was_interrupted_is_made_by_the_next(lib: Path) -> None:
    def interrupted(file: Path) -> None:
        file.touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.make_once(lib, interrupted)
    assert archive.options(lib) == []
    archive.make_once(lib, lambda file: file.touch())
    assert archive.options(lib) != []
