"""The output directory, wherever it is: small files that the protocol of a run rests on.

`LocalFiles` is for a path, `HadoopFiles` (hadoop_files.py) for a URI. Names are relative to the directory, with
`/`. Spark writes its own files below the same directory; these here are the few that decide which of those are true.
"""

import os
import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A directory. Each call is durable when it returns. Raises OSError."""

    @property
    def root(self) -> str:
        """The directory as Spark wants it: a URI without a slash at its end."""

    def read(self, name: str) -> bytes | None:
        """The whole file; None where there is none."""

    def tail(self, name: str, size: int) -> bytes:
        """The last `size` bytes of the file, all of a shorter one."""

    def write(self, name: str, data: bytes) -> None:
        """Make or replace the file: a reader sees the old bytes or the new ones, whole."""

    def create(self, name: str, data: bytes) -> bool:
        """Make the file, whole or not at all; False where there is one, which stays as it is. Of several that try
        at once, one succeeds."""

    def exists(self, name: str) -> bool: ...

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder ("" is the directory), sorted; nothing where there is no such folder."""

    def remove(self, name: str) -> None:
        """Remove a file or a whole folder; nothing happens where there is none."""

    def flush(self) -> None:
        """What others have written below the directory is durable when this returns."""


class LocalFiles:
    """A folder of this machine, or one that it has mounted. A new file is written beside its place and synced; a
    link (`create`) or a rename (`write`) then puts it there, which POSIX promises to be one step."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError: a file has this name."""
        self._folder = folder.resolve()
        if self._folder.exists() and not self._folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file, and a folder is needed")
        self._numbers = count()

    @property
    def root(self) -> str:
        return f"file://{self._folder}"  # Hadoop takes it as it is: what were escaped would be another folder

    def read(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def tail(self, name: str, size: int) -> bytes:
        with self._path(name).open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(length - size, 0))
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        self._beside(path, data).replace(path)
        _sync(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        beside = self._beside(path, data)
        try:
            path.hardlink_to(beside)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        _sync(path.parent)
        return True

    def _beside(self, path: Path, data: bytes) -> Path:
        """The bytes in a file of a name that no other file has."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.{next(self._numbers)}")
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return beside

    def exists(self, name: str) -> bool:
        return self._path(name).exists()

    def names(self, folder: str) -> Sequence[str]:
        try:
            return sorted(os.listdir(self._path(folder)))
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        path = self._path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def flush(self) -> None:
        os.sync()

    def _path(self, name: str) -> Path:
        return self._folder / name


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class MemoryFiles:
    """The in-memory twin: for tests of the protocol."""

    root = "memory:"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def tail(self, name: str, size: int) -> bytes:
        return self.files[name][-size:]

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def create(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, data) is data

    def exists(self, name: str) -> bool:
        return name in self.files or bool(self.names(name))

    def names(self, folder: str) -> Sequence[str]:
        prefix = f"{folder}/" if folder else ""
        return sorted({name[len(prefix) :].split("/")[0] for name in self.files if name.startswith(prefix)})

    def remove(self, name: str) -> None:
        for other in [other for other in self.files if other == name or other.startswith(f"{name}/")]:
            del self.files[other]

    def flush(self) -> None:
        """Memory is as durable as it gets."""
