"""The output directory as a URI, through Hadoop's file systems, which Spark's driver has loaded anyway."""

from collections.abc import Sequence
from itertools import count
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "gs", "oss", "cosn", "obs", "wasb", "wasbs"})
"""Where a file appears whole when it is closed, and a rename is a copy, file by file."""

_STALE = "Exists"  # in the name of the Java exception about a file that is there


def root_of(uri: str) -> str:
    """The URI as Hadoop takes it: nothing in its path is escaped. In a `file:` URI escapes are those of RFC 8089;
    what they mean elsewhere is for the file system to decide. Raises OSError."""
    scheme, _, path = uri.partition(":")
    if scheme.lower() != "file":
        return uri.rstrip("/")
    if path.startswith("//"):
        host, _, below = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise OSError(f"{uri}: a file: URI is of this machine, and has no host: file:///{below}")
        path = f"/{below}"
    return f"file://{unquote(path)}".rstrip("/")


class HadoopFiles:
    """A directory `scheme://...`.

    HDFS, abfs, file: a file is written beside its place and renamed, in one step; `create` renames without
    overwriting, which HDFS and abfs promise to be exclusive. Object stores: one PUT makes the file; `create` asks
    for a conditional one (S3: `fs.s3a.create.conditional.enabled`, on by default from Hadoop 3.4.2; GCS by
    generation). Where the store has none, two runs that begin within the same second may both believe that they
    hold the lock: start one at a time."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Raises OSError: there is no file system of that name, it does not answer, or the URI is that of a file."""
        self.root = root_of(uri)
        gateway: Any = spark
        self._jvm = gateway._jvm
        self._path_class = self._jvm.org.apache.hadoop.fs.Path
        configuration = gateway._jsc.hadoopConfiguration()
        self._system = _io(lambda: self._path_class(self.root).getFileSystem(configuration))
        self._is_store = urlsplit(uri).scheme in OBJECT_STORES
        self._numbers = count()
        if self.exists("") and not _io(lambda: self._system.getFileStatus(self._path("")).isDirectory()):
            raise NotADirectoryError(f"{uri} is a file, and a folder is needed")

    def read(self, name: str) -> bytes | None:
        if not self.exists(name):
            return None
        stream = _io(lambda: self._system.open(self._path(name)))
        try:
            return bytes(_io(stream.readAllBytes))
        finally:
            stream.close()

    def tail(self, name: str, size: int) -> bytes:
        stream = _io(lambda: self._system.open(self._path(name)))
        try:
            length = _io(lambda: self._system.getFileStatus(self._path(name)).getLen())
            _io(lambda: stream.seek(max(length - size, 0)))
            return bytes(_io(stream.readAllBytes))
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        if self._is_store:
            self._put(self._path(name), data, overwrite=True)
        else:
            self._rename(self._beside(name, data), name, "OVERWRITE")

    def create(self, name: str, data: bytes) -> bool:
        beside = None if self._is_store else self._beside(name, data)
        try:
            if beside is None:
                self._put(self._path(name), data, overwrite=False)
            else:
                self._rename(beside, name, "NONE")
        except FileExistsError:
            return False
        finally:
            if beside is not None:
                self._system.delete(beside, False)
        return True

    def _beside(self, name: str, data: bytes) -> Any:
        folder, _, last = name.rpartition("/")
        writer = self._jvm.java.util.UUID.randomUUID().toString()
        beside = self._path(f"{folder}/.{last}.{writer}.{next(self._numbers)}".lstrip("/"))
        self._put(beside, data, overwrite=False)
        return beside

    def _put(self, path: Any, data: bytes, overwrite: bool) -> None:
        stream = _io(lambda: self._system.create(path, overwrite))
        try:
            _io(lambda: stream.write(bytearray(data)))
            _io(stream.hsync if not self._is_store else stream.flush)
        finally:
            _io(stream.close)

    def _rename(self, source: Any, name: str, option: str) -> None:
        rename = getattr(self._jvm.org.apache.hadoop.fs.Options.Rename, option)
        options = self._jvm.java.lang.reflect.Array.newInstance(rename.getClass(), 1)
        options[0] = rename
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._system.getUri())
        _io(lambda: context.rename(source, self._path(name), options))

    def exists(self, name: str) -> bool:
        return bool(_io(lambda: self._system.exists(self._path(name))))

    def names(self, folder: str) -> Sequence[str]:
        if not self.exists(folder):
            return []
        found = _io(lambda: self._system.listStatus(self._path(folder)))
        return sorted(status.getPath().getName() for status in found)

    def remove(self, name: str) -> None:
        _io(lambda: self._system.delete(self._path(name), True))

    def flush(self) -> None:
        """A file of these systems is durable once it is closed."""

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.root}/{name}" if name else self.root)


def _io(call: Any) -> Any:
    """What Java throws, as OSError."""
    try:
        return call()
    except Py4JJavaError as error:
        exception = error.java_exception
        text = f"{exception.getClass().getSimpleName()}: {exception.getMessage()}"
        raise (FileExistsError if _STALE in text.partition(":")[0] else OSError)(text) from None
