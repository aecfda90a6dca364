"""Whether a run starts with the class archive."""

import sys
from pathlib import Path

import pytest

from reconcile.spark.class_archive import java_options
from reconcile.spark.session import LOCAL, local_options

JAVA = "spark.driver.extraJavaOptions"
NAME = "share/delayline/spark-4.2.0-5.jsa"


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def _made(path: Path, data: bytes = b"bytes") -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def test_where_no_archive_was_made_java_starts_as_it_did(prefix: Path) -> None:
    assert local_options() == LOCAL


def test_java_is_given_the_archive_of_this_pyspark_beside_the_other_options(prefix: Path) -> None:
    _made(prefix / NAME)
    given = local_options()[JAVA]
    assert given.startswith(LOCAL[JAVA] + " ")
    assert f"-XX:SharedArchiveFile={prefix / NAME}" in given.split(" ")
    assert "-Xshare:auto" in given.split(" ")  # one that does not fit is ignored


@pytest.mark.parametrize("data", [b"", b"byte", b"bytes and more"])
def test_an_archive_of_another_size_than_in_its_name_is_not_used(prefix: Path, data: bytes) -> None:
    _made(prefix / NAME, data)
    assert local_options() == LOCAL


def test_an_archive_of_another_pyspark_is_not_used(prefix: Path) -> None:
    _made(prefix / NAME.replace("4.2.0", "4.1.0"))
    assert local_options() == LOCAL


def test_a_path_with_a_space_cannot_be_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "my env"))
    _made(tmp_path / "my env" / NAME)
    assert java_options() == ""


def test_options_that_are_given_stand_instead_of_the_archive(prefix: Path) -> None:
    _made(prefix / NAME)
    assert local_options(" -Dsome=thing")[JAVA] == LOCAL[JAVA] + " -Dsome=thing"
