"""Requests that all go over one connection, which is never made again.

A broker forgets a client when its connection ends, and takes nothing more from it but what it has read by then.
A client that sends over one connection alone, and has sent the broker its id by heartbeat, has therefore certainly
ended when the broker does not list it among the members of its group any more.
"""

from contextlib import AbstractContextManager

from rocketmq.client.broker import BrokerRequests
from rocketmq.client.connection import BrokerConnection, PushHandler, connect
from rocketmq.client.group import GroupRequests
from rocketmq.client.masters import Masters
from rocketmq.client.nameservers import NameServers
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import Unreachable


class Pinned:
    """To one broker, as long as it lasts. For any number of threads."""

    def __init__(
        self, address: str, settings: ClientSettings, names: NameServers, clock: RocketmqClock, on_push: PushHandler
    ) -> None:
        """Raises Unreachable."""
        self._connection = connect(address, settings, clock, on_push)
        masters = Masters(settings, self, names)
        self.broker = BrokerRequests(settings, masters, clock)
        self.group = GroupRequests(masters, clock)

    def to(self, address: str) -> BrokerConnection:
        """The connection. Raises Unreachable where it has ended, or the broker is somewhere else now: then it is
        ended, for another process is the master, and what this one still takes may be undone."""
        if address != self._connection.name:
            self.close()
            raise Unreachable(f"the broker has moved from {self._connection.name} to {address}")
        return self._connection

    def gathering(self) -> AbstractContextManager[None]:
        """What is sent within is written to the socket at the end, all at once."""
        return self._connection.gathering()

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    def close(self) -> None:
        """All that waits ends in AnswerLost."""
        self._connection.close()
