"""Buffers made ready at the first delayed message of a topic.

The queue's own `Admin.ensure_buffer` makes them, which blocks and therefore runs in a thread.
"""

import asyncio
from collections.abc import Callable

from delayline.clock import Clock
from delayline.process import logs
from delayline.schedule.rules import Rules
from mq.contract import Admin
from mq.errors import QueueError, TopicUnknown
from proxy.learned import Learned
from proxy.rocketmq.sends.request import RemotingRefusal
from rocketmq.wire.codes import Answer

FRESH_S = 30.0
"""How long a buffer is believed to be there."""
UNREADY_S = 1.0
"""How long a topic that could not be made ready is not tried again."""

log = logs.get(__name__)


class Buffers:
    """One per event loop."""

    def __init__(self, admin: Admin, rules_for: Callable[[str], Rules], clock: Clock) -> None:
        self._admin = admin
        self._rules_for = rules_for
        self._learned: Learned[RemotingRefusal | None] = Learned(self._make_ready, clock)

    def close(self) -> None:
        self._learned.close()

    def is_known(self, topic: str) -> bool:
        """Whether `unready` may be asked. A buffer that is there is used while it is looked for again."""
        found = self._learned.find(topic)
        return found is not None and (found[1] or found[0] is None)

    def unready(self, topic: str) -> RemotingRefusal | None:
        """Why a topic that is known has no buffer; None where it has one."""
        return self._learned.get(topic)

    async def learn(self, topic: str) -> None:
        """Make the topic's buffer ready, or find out why it is not."""
        await self._learned.learn(topic)

    def forget(self, topic: str) -> None:
        """A broker does not know the buffer, or one of its queues."""
        self._learned.forget(topic)

    async def _make_ready(self, topic: str) -> tuple[RemotingRefusal | None, float]:
        try:
            await asyncio.to_thread(self._admin.ensure_buffer, topic, self._rules_for(topic))
        except QueueError as error:
            log.warning("delayed messages cannot be taken", topic=topic, detail=str(error))
            code = Answer.TOPIC_NOT_EXIST if isinstance(error, TopicUnknown) else Answer.SERVICE_NOT_AVAILABLE
            return RemotingRefusal(
                code, f"delayed messages cannot be taken for {topic} right now: {error}"
            ), UNREADY_S
        return None, FRESH_S
