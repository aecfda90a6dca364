"""Where the lines about acts are kept: a file of this process, and a topic of the installation.

A line is stored when its future is done, and is not, or not for sure, where that has an exception.
"""

import os
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from delayline.errors import ConfigError
from delayline.records.record import encode_body
from mq.contract import Admin, Append, Client


class ActStore(Protocol):
    """Keeps lines, in the order in which they came as far as they are of one principal."""

    @property
    def name(self) -> str:
        """As log lines have it."""
        ...

    def append(self, principal: str, line: bytes) -> "Future[Any]":
        """Begin to store a line. Its future may have any exception. Does not block, but for a disk."""
        ...


class ActFile:
    """The file of that name, opened anew for each line: it may be moved away to begin another one."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError where nothing can be written there."""
        self._path = path
        try:
            os.close(self._open())
        except OSError as error:
            raise ConfigError(f"access.act_log: cannot write {path}: {error.strerror}.") from error

    @property
    def name(self) -> str:
        return str(self._path)

    def append(self, principal: str, line: bytes) -> "Future[Any]":
        """Whole, in one call, behind what others have written."""
        future: Future[Any] = Future()
        try:
            self._write(line + b"\n")
            future.set_result(None)
        except OSError as error:
            future.set_exception(error)
        return future

    def _write(self, data: bytes) -> None:
        """Raises OSError."""
        descriptor = self._open()
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError("the disk is full")
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """Raises OSError."""
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


class ActTopic:
    """The topic `<namespace>.operators`. Lines of one principal are in one partition, in their order."""

    def __init__(self, client: Client, admin: Admin, topic: str, threads: Executor) -> None:
        """What blocks is asked in `threads`."""
        self._client = client
        self._admin = admin
        self._topic = topic
        self._threads = threads
        self._partitions: list[str] = []

    @property
    def name(self) -> str:
        return self._topic

    def append(self, principal: str, line: bytes) -> "Future[Any]":
        """After a failure the topic is looked at anew: a partition may be down, or the topic gone."""
        partitions = self._partitions
        if not partitions:
            return self._threads.submit(self._append_first, principal, line)
        future = self._client.append([self._record(partitions, principal, line)])
        future.add_done_callback(self._heed)
        return future

    def _append_first(self, principal: str, line: bytes) -> None:
        """Raises QueueError."""
        self._admin.ensure_own()
        info = self._admin.topic(self._topic)
        partitions = [name for name in info.partitions if name not in info.down]
        self._client.append([self._record(partitions or list(info.partitions), principal, line)]).result()
        self._partitions = partitions

    def _record(self, partitions: list[str], principal: str, line: bytes) -> Append:
        key = principal.encode()
        return Append(self._topic, partitions[crc32(key) % len(partitions)], encode_body(key, line))

    def _heed(self, future: "Future[Any]") -> None:
        if future.exception() is not None:
            self._partitions = []
