"""The files of rules and keys, read again when they change."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Generic, Self, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Gauge

from api.access.noticed import Changes, InForce, Notice
from delayline.access.keys import AccessKeys
from delayline.access.rules import AccessRules, read_rules
from delayline.errors import ConfigError
from delayline.process import threads
from delayline.process.looks import Look, look_at

_log = structlog.get_logger("access")

T = TypeVar("T")

LOOKED_AT_S = 1.0
"""How often a file is looked at. A key that was ended goes on for twice as long, at most."""

FILE_BYTES_MAX = 64 << 20


class Watched(Generic[T]):
    """What a file holds. While it cannot be read or parsed, what was read before stays in force: half a file, or a
    typo, must neither lock every client out nor let any in. `content` may be read by any thread; `look` belongs to
    one."""

    def __init__(self, path: Path, read: Callable[[bytes, str], T], broken: Gauge) -> None:
        """Raises ConfigError: at the start there is nothing before."""
        self._path = path
        self._read = read
        self._broken = broken.labels(path.name)
        self._is_broken = False
        self._used: Look | None = self._looked()
        self._seen: Look | None = self._used
        self.content, self.in_force = self._read_now()

    def look(self) -> None:
        """Read it anew where it has changed, and then stayed as it is from one look to the next: a file that is just
        being written may be valid, and mean something else."""
        try:
            seen, self._seen = self._seen, self._looked()
            if self._seen == self._used or self._seen != seen:
                return
            self.content, self.in_force = self._read_now()
            self._used = self._seen
        except ConfigError as error:
            self._used = self._seen = None  # tried again, also where it comes back just as it was
            if not self._is_broken:
                _log.error(
                    "a file of rules or keys cannot be used; what was read before stays in force",
                    file=str(self._path),
                    error=str(error),
                )
            self._set_broken(True)
            return
        self._set_broken(False)
        _log.info("read again", file=str(self._path))

    def _set_broken(self, is_broken: bool) -> None:
        self._is_broken = is_broken
        self._broken.set(is_broken)

    def _looked(self) -> Look:
        """Raises ConfigError."""
        try:
            return look_at(self._path)
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}.") from error

    def _read_now(self) -> tuple[T, InForce]:
        """Raises ConfigError."""
        try:
            with self._path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}.") from error
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{self._path} has more than {FILE_BYTES_MAX} bytes.")
        return self._read(data, str(self._path)), InForce(str(self._path), sha256(data).hexdigest())


def broken_files(registry: CollectorRegistry) -> Gauge:
    """What `Watched` reports to. One for a registry."""
    return Gauge(
        "delayline_access_file_broken",
        "1 while a file of rules or keys cannot be used, and what was read before stays in force",
        ["file"],
        registry=registry,
    )


class WatchedFiles(ABC):
    """Files as they are now. A thread of its own looks at them: they change also while no request comes, and a file
    system may hang."""

    def __init__(self) -> None:
        self._closing = Event()

    def __enter__(self) -> Self:
        threads.lasting("access-files", self._watch, self._closing).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(LOOKED_AT_S):
            self.look()

    @abstractmethod
    def look(self) -> None:
        """Read what has changed."""


class AccessFiles(WatchedFiles):
    """The rules and the keys of an installation."""

    def __init__(self, rules: Path, keys: Path, registry: CollectorRegistry, notice: Notice | None = None) -> None:
        """`notice` writes down what has changed in them. Raises ConfigError."""
        super().__init__()
        broken = broken_files(registry)
        self._rules = Watched(rules, read_rules, broken)
        self._keys = Watched(keys, AccessKeys.parse, broken)
        self._changes = None if notice is None else Changes(notice)

    def __enter__(self) -> Self:
        super().__enter__()
        if self._changes is not None:  # apart: while nothing can be written down, a key still ends
            threads.lasting("access-changes", self._note_changes, self._closing).start()
        return self

    def look(self) -> None:
        self._rules.look()
        self._keys.look()

    def _note_changes(self) -> None:
        self.note()
        while not self._closing.wait(LOOKED_AT_S):
            self.note()

    def note(self) -> None:
        """Write down what has changed since the last time."""
        if self._changes is not None:
            self._changes.look(self._rules.in_force, self._keys.in_force, self._keys.content)

    @property
    def rules(self) -> AccessRules:
        return self._rules.content

    @property
    def keys(self) -> AccessKeys:
        return self._keys.content


class RulesFile(WatchedFiles):
    """The quotas for a process that knows no keys. The file has them alone where nothing in the installation decides
    by rules (`read_quotas`)."""

    def __init__(self, path: Path, read: Callable[[bytes, str], AccessRules], registry: CollectorRegistry) -> None:
        """Raises ConfigError."""
        super().__init__()
        self._rules = Watched(path, read, broken_files(registry))

    def look(self) -> None:
        self._rules.look()

    @property
    def rules(self) -> AccessRules:
        return self._rules.content
