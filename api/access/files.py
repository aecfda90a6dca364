"""The files of rules and keys, read again when they change."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Generic, NamedTuple, Self, TypeVar

from prometheus_client import CollectorRegistry, Gauge

from api.access.noticed import Changes, InForce, Notice
from delayline.access.keys import AccessKeys
from delayline.access.rules import AccessRules, read_rules
from delayline.access.source import read_bytes
from delayline.process import threads
from delayline.process.watched import Watched, Watcher

T = TypeVar("T")

NOTED_S = 1.0
"""How often what has changed is written down."""


class _Loaded(NamedTuple, Generic[T]):
    content: T
    in_force: InForce


_NO_KEYS = AccessKeys([])


class AccessFiles:
    """The rules and the keys of an installation as they are now. Without a file of keys there are none: its clients
    have certificates. While it is entered, what has changed is written down."""

    def __init__(
        self,
        rules: Path,
        keys: Path | None,
        watcher: Watcher,
        registry: CollectorRegistry,
        notice: Notice | None = None,
    ) -> None:
        """`notice` writes down what has changed in them. Raises ConfigError."""
        broken = _broken_files(registry)
        self._rules = watcher.watch(_watched(rules, read_rules, broken))
        self._keys = None if keys is None else watcher.watch(_watched(keys, AccessKeys.parse, broken))
        self._changes = None if notice is None else Changes(notice)
        self._closing = Event()

    def __enter__(self) -> Self:
        if self._changes is not None:  # apart: while nothing can be written down, a key still ends
            threads.lasting("access-changes", self._note_changes, self._closing).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()

    def _note_changes(self) -> None:
        self.note()
        while not self._closing.wait(NOTED_S):
            self.note()

    def note(self) -> None:
        """Write down what has changed since the last time."""
        if self._changes is not None:
            keys = None if self._keys is None else self._keys.content
            self._changes.look(
                self._rules.content.in_force,
                None if keys is None else keys.in_force,
                _NO_KEYS if keys is None else keys.content,
            )

    @property
    def rules(self) -> AccessRules:
        return self._rules.content.content

    @property
    def keys(self) -> AccessKeys:
        return _NO_KEYS if self._keys is None else self._keys.content.content


class RulesFile:
    """The quotas for a process that knows no clients of HTTP. The file has them alone where no process decides by
    rules (`read_quotas`)."""

    def __init__(
        self, path: Path, read: Callable[[bytes, str], AccessRules], watcher: Watcher, registry: CollectorRegistry
    ) -> None:
        """Raises ConfigError."""
        self._rules = watcher.watch(_watched(path, read, _broken_files(registry)))

    @property
    def rules(self) -> AccessRules:
        return self._rules.content.content


def _broken_files(registry: CollectorRegistry) -> Gauge:
    return Gauge(
        "delayline_access_file_broken",
        "1 while a file of rules or keys cannot be used, and what was read before stays in force",
        ["file"],
        registry=registry,
    )


def _watched(path: Path, parse: Callable[[bytes, str], T], broken: Gauge) -> "Watched[_Loaded[T]]":
    """Raises ConfigError."""

    def read() -> _Loaded[T]:
        data = read_bytes(path)
        return _Loaded(parse(data, str(path)), InForce(str(path), sha256(data).hexdigest()))

    return Watched([path], read, broken.labels(path.name).set)
