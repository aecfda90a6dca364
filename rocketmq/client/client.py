"""All of the client in one object."""

from rocketmq.client.admin import Administration
from rocketmq.client.broker import BrokerRequests
from rocketmq.client.connection import PushHandler
from rocketmq.client.group import GroupRequests
from rocketmq.client.links import Links
from rocketmq.client.masters import Masters
from rocketmq.client.nameservers import NameServers
from rocketmq.client.pinned import Pinned
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import MachineClock, RocketmqClock
from rocketmq.errors import Unreachable


class Client:
    """For any number of threads. Each method raises what is in `rocketmq.errors`:

    InvalidRequest  what is asked cannot be expressed; nothing was sent
    Unreachable     nothing was sent
    AnswerLost      it may have been carried out
    Refused         the broker refuses (TopicMissing, GroupMissing, NotAllowed are kinds of it)
    WireError       the answer cannot be read
    """

    def __init__(
        self, settings: ClientSettings, clock: RocketmqClock | None = None, on_push: PushHandler = lambda _: None
    ) -> None:
        """`on_push` gets what brokers ask of their own accord, in a connection's thread, and must not wait."""
        clock = clock or MachineClock()
        self._settings, self._clock = settings, clock
        self._links = Links(settings, clock, on_push)
        self.names = NameServers(settings, self._links, clock)
        masters = Masters(settings, self._links, self.names)
        self.broker = BrokerRequests(settings, masters, clock)
        self.group = GroupRequests(masters, clock)
        self.admin = Administration(self._links, self.names)

    def pinned(self, broker: str, on_push: PushHandler = lambda _: None) -> Pinned:
        """A connection of its own to the broker's master. The caller closes it."""
        address = self.admin.brokers().get(broker)
        if address is None:
            raise Unreachable(f"no master of broker {broker} is registered")
        return Pinned(address, self._settings, self.names, self._clock, on_push)

    def close(self) -> None:
        """All that waits ends in AnswerLost."""
        self._links.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
