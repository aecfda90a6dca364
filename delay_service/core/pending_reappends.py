"""Messages that were re-appended and have not been read back: in the log, but for a moment in no index."""

from collections.abc import Mapping
from typing import NamedTuple

from delayline.buffer.record import is_repeat
from delayline.records.message import Key


class PendingReappend(NamedTuple):
    """The message's new due time with the offset of its last record, that record's index value, and its names."""

    key: Key
    value: bytes
    names: tuple[bytes, ...]


class PendingReappends:
    """Those of a shard, by message id."""

    def __init__(self) -> None:
        self._moved: dict[str, PendingReappend] = {}
        self._by_name: dict[bytes, str] = {}
        self._repeats: set[str] = set()

    def __len__(self) -> int:
        return len(self._moved)

    def __contains__(self, name: bytes) -> bool:
        """By a name, or by the message id as bytes."""
        # rule moving-name: a name would be free while its message goes on: two messages would have it.
        return bool(self._moved) and (name in self._by_name or name.decode("utf-8", "replace") in self._moved)

    def add(self, message_id: str, moved: PendingReappend) -> None:
        self._moved[message_id] = moved
        self._by_name.update(dict.fromkeys(moved.names, message_id))
        if is_repeat(moved.value):
            self._repeats.add(message_id)

    def pop(self, message_id: str) -> None:
        """It has been read back."""
        moved = self._moved.pop(message_id, None)
        self._repeats.discard(message_id)
        for name in moved.names if moved else ():
            self._by_name.pop(name, None)

    def get(self, message_id: str) -> PendingReappend | None:
        return self._moved.get(message_id)

    def repeats(self) -> int:
        """How many of them are messages that repeat."""
        return len(self._repeats)

    def all(self) -> Mapping[str, tuple[Key, bytes]]:
        """(key, value) by message id."""
        return {message_id: moved[:2] for message_id, moved in self._moved.items()}

    def holder(self, name: bytes) -> tuple[str, PendingReappend] | None:
        """(message id, what is known of it) of the one with this name."""
        message_id = self._by_name.get(name)
        return None if message_id is None else (message_id, self._moved[message_id])
