"""The files that the protocol rests on: on a disk, through Hadoop, and their twin in memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconcile.files import Files, LocalFiles, MemoryFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def through_hadoop(request: pytest.FixtureRequest, folder: Path) -> Files:
    from reconcile.hadoop_files import HadoopFiles

    return HadoopFiles(request.getfixturevalue("spark"), f"{folder.as_uri()}/")


@pytest.fixture(params=["local", "memory", "hadoop"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made: dict[str, Callable[[], Files]] = {
        "local": lambda: LocalFiles(tmp_path / "out"),
        "memory": MemoryFiles,
        "hadoop": lambda: through_hadoop(request, tmp_path / "out"),
    }
    return made[request.param]()


def test_a_file_that_is_not_there_is_none(files: Files) -> None:
    assert (files.read("a/b"), files.exists("a/b"), files.names("a"), files.names("")) == (None, False, [], [])


def test_a_file_is_replaced_whole(files: Files) -> None:
    files.write("a/b", b"longer")
    files.write("a/b", b"new")
    assert (files.read("a/b"), files.names("a"), files.names("")) == (b"new", ["b"], ["a"])


def test_a_file_is_created_once(files: Files) -> None:
    assert files.create("a/b", b"first")
    assert not files.create("a/b", b"second")
    assert (files.read("a/b"), files.names("a")) == (b"first", ["b"])


@pytest.mark.parametrize("files", ["local", "memory"], indirect=True)  # Hadoop's `file:` promises nothing of the kind
def test_of_many_that_create_a_file_at_once_one_succeeds(files: Files) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: files.create("lock", b"%d" % number), range(64)))
    assert files.read("lock") == b"%d" % made.index(True)
    assert sum(made) == 1


def test_files_and_folders_are_removed(files: Files) -> None:
    files.write("a/b/c", b"1")
    files.write("a/bb", b"2")
    files.remove("a/b")
    files.remove("nothing")
    assert (files.exists("a/b/c"), files.names("a")) == (False, ["bb"])
    files.remove("a/bb")
    assert files.names("a") == []


def test_a_folder_exists(files: Files) -> None:
    files.write("a/b/c", b"1")
    assert (files.exists("a/b"), files.exists("a/c")) == (True, False)


def test_spark_finds_a_local_folder_by_its_uri(tmp_path: Path) -> None:
    assert LocalFiles(tmp_path / "with space").root == f"file://{tmp_path}/with%20space"


def test_hadoop_leaves_nothing_beside_a_file(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    files = through_hadoop(request, tmp_path)
    files.write("a/b", b"1")
    files.write("a/b", b"2")
    assert not files.create("a/b", b"3")
    found = [path.name for path in (tmp_path / "a").iterdir() if not path.name.endswith(".crc")]
    assert (found, files.root) == (["b"], tmp_path.as_uri())


def test_what_hadoop_cannot_write_is_an_error_of_the_system(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no folder")
    with pytest.raises(OSError, match="a"):
        through_hadoop(request, tmp_path).write("a/b", b"1")


def test_a_file_system_that_there_is_not_is_an_error_of_the_system(request: pytest.FixtureRequest) -> None:
    from reconcile.hadoop_files import HadoopFiles

    with pytest.raises(OSError, match='No FileSystem for scheme "nowhere"'):
        HadoopFiles(request.getfixturevalue("spark"), "nowhere://host/folder")


@pytest.mark.parametrize("name", ["my ledger", "Bücher", "50%20off", "by=month"])
def test_what_spark_writes_is_read_back_whatever_the_directory_is_called(
    spark: "SparkSession", tmp_path: Path, name: str
) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType, StructField, StructType

    from reconcile.rooms import Rooms

    rooms = Rooms(spark, LocalFiles(tmp_path / name))
    schema = StructType([StructField("number", LongType())])
    rows = spark.createDataFrame([(7,)], schema).withColumn("hour", F.lit(3))

    rooms.write(rows, "stage/run=1", "hour")

    found = rooms.read(schema, ["stage/run=1"])
    assert ([tuple(row) for row in found.collect()], rooms.hours("stage/run=1")) == ([(7,)], [3])
