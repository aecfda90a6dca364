"""Answers about single messages from the worker that owns their shard (`delayline.inquiry.Owners`)."""

from concurrent.futures import Future

from delay_service.history import History
from delay_service.shard import Shard
from delay_service.worker import Worker
from delayline.inquiry import Found, Gone, OwnerUnavailable, State
from delayline.message import MessageId
from delayline.names import Names
from mq.contract import Client
from mq.errors import OffsetOutOfRange


class WorkerInquiry:
    """Asks one worker in its own thread; with a queue of one process, that worker owns everything."""

    def __init__(self, worker: Worker, client: Client, names: Names, history: History) -> None:
        self._worker = worker
        self._client = client
        self._names = names
        self._history = history

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        """See `delayline.inquiry.Owners`."""
        return self._worker.call(lambda: self._find(message_id))

    def _find(self, message_id: MessageId) -> Found | Gone | None:
        core = self._worker.core(message_id.shard)
        if core is None:
            if self._worker.owns(message_id.shard):
                raise OwnerUnavailable(f"shard {'.'.join(message_id.shard)} is being taken over")
            return None
        if message_id.occurrence is not None:
            return None
        return self._pending(core, message_id) or self._ended(message_id) or self._elsewhere(core, message_id)

    @staticmethod
    def _pending(core: Shard, message_id: MessageId) -> Found | None:
        pending = core.find(message_id)
        if pending is None:
            return None
        key, record, accepted_at_ms, version = pending
        return Found(
            message_id,
            State.PENDING,
            accepted_at_ms,
            key.due_ms,
            version,
            record.key,
            record.value,
            tuple(record.headers),
        )

    def _ended(self, message_id: MessageId) -> Found | None:
        known = self._history.find(message_id.shard, message_id.offset, message_id.due_ms)
        if known is None:
            return None
        ending, accepted_at_ms = known
        return Found(message_id, State(ending.outcome.value), accepted_at_ms, message_id.due_ms, ending=ending)

    def _elsewhere(self, core: Shard, message_id: MessageId) -> Found | Gone | None:
        """Not indexed and not remembered: still on its way from the log, gone, or never accepted."""
        buffer = self._names.buffer(message_id.shard.topic)
        try:
            records = self._client.read(buffer, message_id.shard.name, message_id.offset, 1)
        except OffsetOutOfRange:
            return Gone() if message_id.offset < core.position else None
        if not records or records[0].offset != message_id.offset:
            return None
        if core.due_ms(records[0]) != message_id.due_ms:
            return None
        if message_id.offset < core.position:
            return Gone()
        return Found(message_id, State.ACCEPTED, records[0].appended_at_ms, message_id.due_ms)
