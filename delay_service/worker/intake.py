"""Records from the source go into the index.

Where that is impossible the worker stops reading the shard but goes on delivering what is indexed. It tries the same
offset again, with a backoff if the log is the reason.
"""

from delay_service.core.errors import STORE_FULL, UNKNOWN_FORMAT, UNREADABLE
from delay_service.core.shard import Shard
from delay_service.worker.owned import Owned
from delay_service.worker.stalls import Stalls
from delayline.errors import UnknownFormat
from delayline.process import logs
from mq.contract import Fetched, Source, Unreadable
from store.errors import StoreFull

log = logs.get(__name__)


class Intake:
    """Called from the worker's thread."""

    def __init__(self, source: Source, stalls: Stalls) -> None:
        self._source = source
        self._stalls = stalls

    def handle(self, owned: Owned, core: Shard, event: Fetched | Unreadable) -> None:
        """Records, or that the next ones cannot be read."""
        match event:
            case Fetched():
                self._take_in(owned, core, event)
            case Unreadable(detail=detail):
                self._unreadable(owned, core, detail)

    def _unreadable(self, owned: Owned, core: Shard, detail: str) -> None:
        """An operator may have had the range skipped."""
        if (end := core.cursor.skipped_until(core.position)) is None:
            self._hold_back(owned, core, UNREADABLE, detail)
        else:
            core.advance(end)
            self._source.seek(owned.id, end)

    def _take_in(self, owned: Owned, core: Shard, fetched: Fetched) -> None:
        try:
            core.ingest(fetched.records, self._source.now_ms(owned.id))
        except StoreFull as error:
            self._hold_back(owned, core, STORE_FULL, str(error))
        except UnknownFormat as error:
            self._hold_back(owned, core, UNKNOWN_FORMAT, f"at offset {core.position}: {error}")
        else:
            core.advance(max(fetched.next_offset, fetched.records[-1][0] + 1 if fetched.records else 0))
            self._stalls.read_on(owned)

    def _hold_back(self, owned: Owned, core: Shard, reason: str, detail: str) -> None:
        """Reading stops; maintenance tries again. A full disk may have space in a moment; a log that cannot be
        read rarely changes."""
        if owned.reading.stalled != reason:
            log.error(
                "reading stopped", topic=owned.id.topic, partition=owned.id.partition, reason=reason, detail=detail
            )
        self._stalls.stop_reading(owned, reason, detail, backs_off=reason != STORE_FULL)
        self._source.pause_fetch(owned.id)
        self._source.seek(owned.id, core.position)
