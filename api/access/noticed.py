"""What was done to the files of rules and keys, as a server notices it: they are written by commands and editors, on
machines where no server may run, so nothing can be written down before it is done.

Each process that reads the files writes its own lines. What changed while no server was there shows as another digest
at its next start.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from delayline.access.keys import AccessKey, AccessKeys
from delayline.times import format_moment

FILE_READ, KEY_ADDED, KEY_CHANGED, KEY_REMOVED = "fileRead", "keyAdded", "keyChanged", "keyRemoved"
"""Operations of lines that are `noticed`."""


class Notice(Protocol):
    def __call__(self, *, operation: str, source: str, detail: str) -> bool:
        """Write it down; whether it is. May block."""
        ...


class InForce(NamedTuple):
    """A file as it is in force, by its name and the digest (SHA-256) of its content."""

    name: str
    digest: str


class Changes:
    """Of one installation's files. One thread at a time. What cannot be written down is tried again with the next
    look: a key that has ended has ended, whether that can be written down or not."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._digests: dict[str, str] = {}
        self._keys: AccessKeys | None = None  # as they were last written down

    def look(self, rules: InForce, keys_file: InForce | None, keys: AccessKeys) -> None:
        """Write down what has changed since the last look; at the first one, which files are in force."""
        files = (rules,) if keys_file is None else (rules, keys_file)
        for name, digest in files:
            if self._digests.get(name) != digest and self._notice(
                operation=FILE_READ, source=name, detail=f"sha256 {digest}"
            ):
                self._digests[name] = digest
        if keys_file is None:
            return
        changes = [] if self._keys is None else list(_between(self._keys, keys))
        noticed = [self._notice(operation=what, source=files[-1].name, detail=detail) for what, detail in changes]
        if all(noticed):
            self._keys = keys


def _between(before: AccessKeys, after: AccessKeys) -> Iterator[tuple[str, str]]:
    was, now = _by_id(before), _by_id(after)
    for key_id, key in now.items():
        if was.get(key_id) != key:
            yield KEY_CHANGED if key_id in was else KEY_ADDED, _described(key)
    for key_id in was.keys() - now.keys():
        yield KEY_REMOVED, _described(was[key_id])


def _by_id(keys: AccessKeys) -> Mapping[str, AccessKey]:
    return {key.id: key for key in keys.all()}


def _described(key: AccessKey) -> str:
    """Nothing of its hash."""
    until = "no end" if key.expires_ms is None else f"ends {format_moment(key.expires_ms)}"
    return f"key {key.id} of {key.principal}, {until}"
