"""Where the lines about acts are kept: a file of this process, and a topic of the installation.

A line is stored when its future is done, and is not, or not for sure, where that has an exception.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from errno import EINVAL, ENOSPC
from pathlib import Path
from queue import SimpleQueue
from stat import S_ISREG
from threading import Event
from typing import Any, Protocol
from zlib import crc32

from delayline.errors import ConfigError
from delayline.process.threads import lasting
from delayline.records.record import encode_body
from mq.contract import Admin, Append, Client

WAITING_MAX = 1024
"""Lines for a file that takes none; about what may be in flight at once."""


class ActStore(Protocol):
    """Keeps lines, in the order in which they came as far as they are of one principal."""

    @property
    def name(self) -> str:
        """As log lines have it."""
        ...

    def append(self, principal: str, line: bytes) -> "Future[Any]":
        """Begin to store a line. Its future may have any exception. Does not block."""
        ...


class ActFile:
    """The file of that name, opened anew for each line: it may be moved away to begin another one. A thread of its
    own writes, as a file system may hang; a line that waits for it is written when it goes on."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError where nothing can be written there."""
        self._path = path
        try:
            os.close(self._open())
        except OSError as error:
            raise ConfigError(f"access.act_log: cannot write {path}: {error.strerror}.") from error
        self._waiting: SimpleQueue[tuple[bytes, Future[Any]] | None] = SimpleQueue()
        self._closing = Event()
        lasting("act file", self._run, self._closing).start()

    @property
    def name(self) -> str:
        return str(self._path)

    def append(self, principal: str, line: bytes) -> "Future[Any]":
        """Whole, in one call, behind what others have written."""
        future: Future[Any] = Future()
        if self._waiting.qsize() < WAITING_MAX:
            self._waiting.put((line + b"\n", future))
        else:
            future.set_exception(OSError("the file takes nothing"))
        return future

    def close(self) -> None:
        """Without waiting for a file system that hangs."""
        self._closing.set()
        self._waiting.put(None)

    def _run(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            line, future = waiting
            try:
                self._write(line)
                future.set_result(None)
            except OSError as error:
                future.set_exception(error)

    def _write(self, line: bytes) -> None:
        """Raises OSError. Part of a line may be there, from a full disk or a crash: the next one is a line anyway.
        Cut off again, it could take what another process has written meanwhile with it."""
        descriptor = self._open()
        try:
            data = line if _ends_with_a_line(descriptor) else b"\n" + line
            if os.write(descriptor, data) < len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """Raises OSError, also for a pipe or a device: those may take nothing for ever."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = os.open(self._path, flags, 0o640)
        if not S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(EINVAL, "it is no regular file")
        return descriptor


def _ends_with_a_line(descriptor: int) -> bool:
    """Raises OSError."""
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) in (b"\n", b"")  # nothing: it was emptied meanwhile


class ActTopic:
    """The topic `<namespace>.operators`. Lines of one principal are in one partition, in their order."""

    def __init__(self, client: Client, admin: Admin, topic: str, threads: Executor) -> None:
        """What blocks is asked in `threads`."""
        self._client = client
        self._admin = admin
        self._topic = topic
        self._threads = threads
        self._partitions: Sequence[str] = ()

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
        partitions = self._admin.topic(self._topic).taking
        self._client.append([self._record(partitions, principal, line)]).result()
        self._partitions = partitions

    def _record(self, partitions: Sequence[str], principal: str, line: bytes) -> Append:
        key = principal.encode()
        return Append(self._topic, partitions[crc32(key) % len(partitions)], encode_body(key, line))

    def _heed(self, future: "Future[Any]") -> None:
        if future.exception() is not None:
            self._partitions = ()
