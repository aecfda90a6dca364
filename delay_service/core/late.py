"""Late records: pending, with a key at or below D.

Delivery has passed the key of such a record before the record could be read, as late data is behind a watermark
(Akidau et al., "The Dataflow Model", 2015). The cursor covers what has `offset < O and key <= D`, so O must stay at
or below every late record until it has ended: `Shard` asks for the `lowest` one.
"""

from collections.abc import Collection, Container, Iterable, Sequence

from delayline.records.message import Key
from store.index import PlainEntry


class LateRecords:
    """Those of one shard. Nearly always there are none, which costs one look at an empty dict."""

    def __init__(self) -> None:
        self._keys: dict[int, Key] = {}  # by offset

    def __bool__(self) -> bool:
        return bool(self._keys)

    def read(self, entries: Sequence[PlainEntry], delivered_key: Key) -> None:
        """Some of these records, which have just been read, may be late."""
        # Hot: tuples compare with (due_ms, offset, value), so the lowest entry answers for a whole fetch of records.
        if min(entries)[0] <= delivered_key.due_ms:
            self._keys |= {entry[1]: Key(*entry[:2]) for entry in entries if entry[:2] <= delivered_key}

    def add(self, keys: Iterable[Key]) -> None:
        """A batch passes these pending records and leaves them where they are."""
        self._keys |= {key.offset: key for key in keys}

    def forget(self, offset: int) -> None:
        """The record has ended."""
        self._keys.pop(offset, None)

    def keep_up_to(self, delivered_key: Key) -> None:
        """D is back at `delivered_key`: the batch that would have moved it was aborted."""
        self._keys = {offset: key for offset, key in self._keys.items() if key <= delivered_key}

    def lowest(self, without: Collection[int] = ()) -> int | None:
        """The lowest offset, but for these."""
        if not self._keys:
            return None
        return min(self._keys.keys() - without, default=None)

    def below(self, offset: int, last: Key, ended: Container[Key]) -> list[Key]:
        """Those below `offset` with keys up to `last`, in order of delivery; without what has `ended`."""
        return sorted(key for key in self._keys.values() if key.offset < offset and key <= last and key not in ended)
