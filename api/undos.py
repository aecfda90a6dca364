"""Opening an undo before something is ended, for the routes that end many messages."""

from api.bodies.acts import UndoOut
from api.topics import TopicBook
from api.undoing import Opened, Purged
from delayline.times import format_moment


class Undos:
    """Belongs to the event loop."""

    def __init__(self, undo_ms: int, topics: TopicBook, purged: Purged) -> None:
        """`undo_ms` 0: nothing can be undone."""
        self._undo_ms = undo_ms
        self._topics = topics
        self._purged = purged

    async def opened(self, topic: str, of: str, *, wanted: bool) -> Opened | None:
        """For a PURGE or a CANCEL. None where it is not wanted, or nothing is kept. Raises TopicUnknown,
        QueueUnavailable."""
        if not wanted or not self._undo_ms:
            return None
        await self._topics.info(topic)
        return await self._topics.ask(lambda: self._purged.open(topic, of, self._undo_ms))


def undo_out(opened: Opened | None) -> UndoOut | None:
    return None if opened is None else UndoOut(opened.id, format_moment(opened.until_ms))
