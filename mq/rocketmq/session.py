"""A worker's session with one broker: one connection, and an id under which the broker lists it while that lasts.

It is what fences. Everything that a worker writes for the shards of a broker goes over the session's connection,
which is never made again: a new one is another session. The broker drops the id from the group's list when the
connection has ended (`ClientHousekeepingService`), by then it has read all that came over it, and what comes later
comes to a closed socket: also where its owner was frozen, or cut off, and goes on. A list counts if it names the
asker as well: a broker that has just started knows no session yet.

What is left is what the broker has read and not carried out: `RocketmqSettings.landing_s`.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count

from mq.errors import QueueUnavailable
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.errors import RocketmqError
from rocketmq.wire.bodies import Consumer, Queue
from rocketmq.wire.command import Command

_numbers = count(1)


class Session:
    """Any thread."""

    def __init__(
        self,
        settings: RocketmqSettings,
        client: Client,
        broker: str,
        topic: str,
        writer: str,
        on_change: Callable[[], None],
        group: str = "",
    ) -> None:
        """`topic` is one that the broker has; `group` is another than the workers'. `on_change` is called, in the
        connection's thread, when the group has other members. Raises RocketmqError."""

        def pushed(_: Command) -> None:
            on_change()

        self.broker = broker
        self.id = f"{writer}~{next(_numbers)}@{settings.address}"
        self._group = group or settings.group
        self._queue = Queue(topic, broker, 0)
        client.admin.create_group(self._group, broker)
        self._pinned = client.pinned(broker, pushed)
        self.requests = self._pinned.broker
        try:
            self.beat()
        except BaseException:
            self.end()
            raise

    @property
    def is_open(self) -> bool:
        return self._pinned.is_open

    def beat(self) -> None:
        """The broker forgets who is silent for two minutes (`channelExpiredTimeout`). Raises RocketmqError."""
        self.requests.heartbeat(self._queue, self.id, consumers=[Consumer(self._group, {})])

    def members(self) -> set[str]:
        """Ids of all sessions with this broker. Raises QueueUnavailable."""
        try:
            found = set(self.requests.consumers(self._group, self._queue))
        except RocketmqError as error:
            raise QueueUnavailable(f"asking {self.broker} for the group's members: {error}") from error
        # rule session-listed: a broker that has just started would show every other session as ended.
        if self.id not in found:
            raise QueueUnavailable(f"{self.broker} does not know this session yet")
        return found

    def leave(self) -> None:
        """In order: others need not wait for the connection's end."""
        with suppress(RocketmqError):  # it ends all the same
            self.requests.leave(self._queue, self.id, consumer_group=self._group)
        self.end()

    def end(self) -> None:
        """Nothing more can be sent; what is on its way may still land."""
        self._pinned.close()


def writer_of(session: str) -> tuple[str, str]:
    """The worker's name and address that a session's id holds."""
    name, _, address = session.partition("@")
    return name.rpartition("~")[0], address
