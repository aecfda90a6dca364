"""One connection per address, made when it is needed. An address that does not answer is left alone for a while,
longer each time: a caller that asks for it meanwhile gets an error at once."""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from rocketmq.client.connection import BrokerConnection, PushHandler, connect
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import Unreachable

Connector = Callable[[str, ClientSettings, RocketmqClock, PushHandler], BrokerConnection]


class _Failed(NamedTuple):
    until_s: float
    backoff_s: float
    reason: str


class _Link:
    """Of one address. `lock` is held while connecting, so that it is done once."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.connection: BrokerConnection | None = None
        self.failed: _Failed | None = None


class Links:
    """Connections by address; bounded by how many brokers and name servers there are."""

    def __init__(
        self, settings: ClientSettings, clock: RocketmqClock, on_push: PushHandler, connector: Connector = connect
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_push = on_push
        self._connector = connector
        self._lock = Lock()
        self._links: dict[str, _Link] = {}
        self._is_closed = False

    def to(self, address: str) -> BrokerConnection:
        """An open connection. Raises Unreachable."""
        with self._lock:
            if self._is_closed:
                raise Unreachable("the client is closed")
            link = self._links.setdefault(address, _Link())
        with link.lock:
            if link.connection is None or not link.connection.is_open:
                link.connection = self._connect(address, link)
            return link.connection

    def _connect(self, address: str, link: _Link) -> BrokerConnection:
        failed, now_s = link.failed, self._clock.monotonic_s()
        if failed is not None and now_s < failed.until_s:
            raise Unreachable(f"{failed.reason}; tried again in {failed.until_s - now_s:.1f} s")
        try:
            made = self._connector(address, self._settings, self._clock, self._on_push)
        except Unreachable as error:
            settings = self._settings
            backoff_s = min(failed.backoff_s * 2 if failed else settings.backoff_min_s, settings.backoff_max_s)
            link.failed = _Failed(self._clock.monotonic_s() + backoff_s, backoff_s, str(error))
            raise
        link.failed = None
        return made

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            links = list(self._links.values())
        for link in links:
            with link.lock:
                if link.connection is not None:
                    link.connection.close()
