"""Pending records that are to be re-appended, so that they no longer pin the low offset (`roller.py` asks for
them)."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from delay_service.core.batch_draft import ROLLED_BYTES_MAX, BatchDrafter
from delay_service.core.pending_record import PendingRecord
from delay_service.core.weight import weight
from delayline.records.message import Key
from store.index import ShardIndex


class Rollable(NamedTuple):
    """What a commit lets be re-appended: records below O and above D that it does not end."""

    next_offset: int
    delivered_key: Key
    ended: Collection[Key]


class Rolls:
    """Those of one shard that wait, in the order of asking."""

    def __init__(self, index: ShardIndex, drafter: BatchDrafter) -> None:
        self._keys: dict[Key, None] = {}  # bounded: `roller.SCANNED_MAX` keys per call, and each is pending
        self._index = index
        self._drafter = drafter

    def __bool__(self) -> bool:
        return bool(self._keys)

    def ask(self, keys: Iterable[Key]) -> None:
        self._keys.update(dict.fromkeys(keys))

    def cancel(self, key: Key) -> None:
        """The record has ended."""
        self._keys.pop(key, None)

    def clear(self) -> None:
        """The log takes none of them."""
        self._keys.clear()

    def committed(self, delivered_key: Key, gone: Collection[Key]) -> None:
        """Forget what D has passed, and what is `gone` for another reason."""
        self._keys = {key: None for key in self._keys if key > delivered_key and key not in gone}

    def chosen(self, rollable: Rollable, bytes_left: int, *, alone: bool) -> Iterator[PendingRecord]:
        """Those that have room in `bytes_left` of the batch. `alone`: the first one however large it is."""
        bytes_left = min(bytes_left, ROLLED_BYTES_MAX)
        for key in self._keys:
            if bytes_left <= 0:
                return
            is_above_d, is_below_o = key > rollable.delivered_key, key.offset < rollable.next_offset
            # rule roll-below: at or above O the old record would be read again beside the new one: delivered twice.
            value = self._index.get(key) if is_above_d and is_below_o else None
            # rule roll-ended: what an operation ends in this commit would go on in another record.
            if value is None or key in rollable.ended:
                continue
            pending = self._drafter.pending_record(key, value)
            if not pending.is_dead:  # that is due at once: it pins nothing for long
                if bytes_left < weight(value) and not alone:
                    return
                bytes_left, alone = bytes_left - weight(value), False
                yield pending
