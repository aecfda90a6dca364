"""The files that the protocol rests on: on a disk, through Hadoop, and their twin in memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconcile.directory.files import Files, LocalFiles, MemoryFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NASTY = "my Bücher 50%20off by=month #1? [a]{b}*c \\d"


def through_hadoop(request: pytest.FixtureRequest, folder: Path) -> Files:
    from reconcile.spark.hadoop_files import HadoopFiles

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
    assert LocalFiles(tmp_path / "with space").root == f"file://{tmp_path}/with space"


def test_a_folder_that_is_a_file_is_an_error_of_the_system(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=r"ledger/? is a file, and a folder is needed"):
        LocalFiles(tmp_path / "ledger")
    with pytest.raises(NotADirectoryError, match=r"ledger/? is a file, and a folder is needed"):
        through_hadoop(request, tmp_path / "ledger")


def test_a_folder_below_a_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"file"):
        LocalFiles(tmp_path / "file" / "ledger").create("lock", b"")


def test_a_relative_folder_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    LocalFiles(Path("my ledger/")).write("a", b"1")
    assert ((tmp_path / "my ledger" / "a").read_bytes(), LocalFiles(Path("my ledger/")).root) == (
        b"1",
        f"file://{tmp_path}/my ledger",
    )


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("file:///my%20ledger/", "file:///my ledger"),
        ("file:/B%C3%BCcher", "file:///Bücher"),
        ("file://localhost/a%2520b", "file:///a%20b"),
        ("FILE:///a%23b%3Fc", "file:///a#b?c"),
        ("file:///a=b/[x]{y}*", "file:///a=b/[x]{y}*"),
        ("s3a://bucket/my%20ledger/", "s3a://bucket/my%20ledger"),
        ("hdfs://host:8020/x", "hdfs://host:8020/x"),
    ],
)
def test_escapes_are_those_of_the_uri(uri: str, root: str) -> None:
    from reconcile.spark.hadoop_files import root_of

    assert root_of(uri) == root


def test_a_file_uri_of_another_machine_is_refused() -> None:
    from reconcile.spark.hadoop_files import root_of

    with pytest.raises(OSError, match=r"file://host/x: .* has no host: file:///x"):
        root_of("file://host/x")


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
    from reconcile.spark.hadoop_files import HadoopFiles

    with pytest.raises(OSError, match='No FileSystem for scheme "nowhere"'):
        HadoopFiles(request.getfixturevalue("spark"), "nowhere://host/folder")


@pytest.mark.parametrize("name", ["ordinary", NASTY])
@pytest.mark.parametrize("how", ["local", "hadoop"])
def test_what_spark_writes_is_read_back_whatever_the_directory_is_called(
    request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path, name: str, how: str
) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType, StructField, StructType

    from reconcile.spark.parquet_store import ParquetStore

    folder = tmp_path / name
    rooms = ParquetStore(spark, LocalFiles(folder) if how == "local" else through_hadoop(request, folder))
    schema = StructType([StructField("number", LongType())])
    rows = spark.range(9).select(F.col("id").alias("number"), (F.col("id") % 2).alias("hour"))

    rooms.write(rows, "stage/run=1", "hour")

    assert rooms.written == {"stage/run=1/hour=0": 5, "stage/run=1/hour=1": 4}
    found = rooms.read(schema, ["stage/run=1/hour=0", "stage/run=1/hour=1"])
    assert (found.count(), rooms.read(schema, ["stage/run=1"]).count(), rooms.hours("stage/run=1")) == (9, 9, [0, 1])
    assert folder.is_dir()
