"""Files that are read again when they change: rules, keys, certificates.

A thread of its own looks at them, so that a slow file system holds up nothing else, and they count also while no
request comes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Any, Generic, Self, TypeVar

import structlog

from delayline.errors import ConfigError
from delayline.process import threads
from delayline.process.looks import Look, look_at

_log = structlog.get_logger("files")

T = TypeVar("T")

LOOKED_AT_S = 1.0
"""How often a file is looked at. What was changed counts after twice as long, at most."""


def _ignore(is_broken: bool) -> None:
    pass


class Watched(Generic[T]):
    """What files hold together. While they cannot be read or parsed, what was read before stays in force: half a
    file, or a typo, must neither lock every client out nor let any in. `content` may be read by any thread; `look`
    belongs to one."""

    def __init__(
        self, paths: Sequence[Path], read: Callable[[], T], broken: Callable[[bool], object] = _ignore
    ) -> None:
        """`read` raises ConfigError; `broken` gets whether they cannot be used. Raises ConfigError: at the start
        there is nothing before."""
        self._paths = paths
        self._read = read
        self._broken = broken
        self._is_broken = False
        self._used: Sequence[Look] | None = self._looked()
        self._seen: Sequence[Look] | None = self._used
        self.content = read()

    def look(self) -> None:
        """Read them anew where they have changed, and then stayed as they are from one look to the next: a file that
        is just being written may be valid, and mean something else."""
        try:
            seen, self._seen = self._seen, self._looked()
            if self._seen == self._used or self._seen != seen:
                return
            self.content = self._read()
            self._used = self._seen
        except ConfigError as error:
            self._used = self._seen = None  # tried again, also where they come back just as they were
            if not self._is_broken:
                _log.error(
                    "a file cannot be used; what was read before stays in force", file=self._names, error=str(error)
                )
            self._set_broken(True)
            return
        self._set_broken(False)
        _log.info("read again", file=self._names)

    @property
    def _names(self) -> str:
        return ", ".join(map(str, self._paths))

    def _set_broken(self, is_broken: bool) -> None:
        self._is_broken = is_broken
        self._broken(is_broken)

    def _looked(self) -> Sequence[Look]:
        """Raises ConfigError."""
        return [_look(path) for path in self._paths]


def _look(path: Path) -> Look:
    """Raises ConfigError."""
    try:
        return look_at(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}.") from error


class Watcher:
    """Looks at the files of a process while it is entered."""

    def __init__(self) -> None:
        self._all: list[Watched[Any]] = []
        self._lock = Lock()
        self._closing = Event()

    def watch(self, watched: Watched[T]) -> Watched[T]:
        """From now on. Any thread."""
        with self._lock:
            self._all.append(watched)
        return watched

    def __enter__(self) -> Self:
        threads.lasting("files", self._run, self._closing).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(LOOKED_AT_S):
            self.look()

    def look(self) -> None:
        """At all of them; read what has changed."""
        with self._lock:
            watched = tuple(self._all)
        for one in watched:
            try:
                one.look()
            except Exception as error:  # noqa: BLE001 - one file must not keep the others from being looked at
                threads.noted("files", error)
