"""The files of rules and keys, read again when they change."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Gauge

from delayline.access.keys import AccessKeys
from delayline.access.rules import AccessRules, parse_rules
from delayline.clock import Clock
from delayline.errors import ConfigError

_log = structlog.get_logger("access")

T = TypeVar("T")

LOOKED_AT_S = 1.0
"""How often a file is looked at, so how long a key that was revoked goes on, at most."""

FILE_BYTES_MAX = 64 << 20


class _Look(NamedTuple):
    """What changes when a file does. A file that is put in the place of another has another inode."""

    inode: int
    size: int
    modified_ns: int


class Watched(Generic[T]):
    """What a file holds. While it cannot be read or parsed, what was read before stays in force: half a file, or a
    typo, must neither lock every client out nor let any in. For one thread."""

    def __init__(self, path: Path, read: Callable[[bytes, str], T], clock: Clock, broken: Gauge) -> None:
        """Raises ConfigError: at the start there is nothing before."""
        self._path = path
        self._read = read
        self._clock = clock
        self._broken = broken.labels(path.name)
        self._is_broken = False
        self._look: _Look | None = self._looked()
        self._content = self._read_now()
        self._looked_s = clock.monotonic_s()

    def current(self) -> T:
        """What it holds now, or held a second ago."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._looked_s + LOOKED_AT_S:
            self._looked_s = now_s
            self._renew()
        return self._content

    def _renew(self) -> None:
        try:
            look = self._looked()
            if look == self._look:
                return
            self._content = self._read_now()
            self._look = look
        except ConfigError as error:
            self._look = None  # tried again, also where it comes back just as it was
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

    def _looked(self) -> _Look:
        """Raises ConfigError."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}.") from error
        return _Look(found.st_ino, found.st_size, found.st_mtime_ns)

    def _read_now(self) -> T:
        """Raises ConfigError."""
        try:
            with self._path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}.") from error
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{self._path} has more than {FILE_BYTES_MAX} bytes.")
        return self._read(data, str(self._path))


class AccessFiles:
    """The rules and the keys of an installation as they are now."""

    def __init__(self, rules: Path, keys: Path, clock: Clock, registry: CollectorRegistry) -> None:
        """Raises ConfigError."""
        broken = Gauge(
            "delayline_access_file_broken",
            "1 while a file of rules or keys cannot be used, and what was read before stays in force",
            ["file"],
            registry=registry,
        )
        self._rules = Watched(rules, read_rules, clock, broken)
        self._keys = Watched(keys, AccessKeys.parse, clock, broken)

    @property
    def rules(self) -> AccessRules:
        return self._rules.current()

    @property
    def keys(self) -> AccessKeys:
        return self._keys.current()


def read_rules(data: bytes, name: str) -> AccessRules:
    """Raises ConfigError."""
    try:
        return parse_rules(data.decode(), name)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8.") from error
