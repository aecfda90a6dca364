"""One connection per address, made when it is needed. An address that does not answer is left alone for a while,
longer each time: a caller that asks for it meanwhile gets an error at once. Later attempts go on in a thread of
their own: an address that swallows them holds up its first caller, and no other."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import NamedTuple

from rocketmq.client.connection import BrokerConnection, PushHandler, connect
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import Unreachable

AGAIN_WAIT_S = 0.1
"""For an attempt after a failed one: a refusal comes sooner."""

Connector = Callable[[str, ClientSettings, RocketmqClock, PushHandler], BrokerConnection]


class _Failed(NamedTuple):
    until_s: float
    backoff_s: float
    reason: str


class _Link:
    """Of one address. `lock` is held while connecting, so that it is done once; `trying` is an attempt after a failed
    one."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.connection: BrokerConnection | None = None
        self.failed: _Failed | None = None
        self.trying: Future[BrokerConnection] | None = None


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
            made = self._made(address) if failed is None else self._made_again(address, link, failed.reason)
        except Unreachable as error:
            if link.trying is None:
                self._leave_alone(link, str(error))
            raise
        link.failed = None
        return made

    def _made(self, address: str) -> BrokerConnection:
        return self._connector(address, self._settings, self._clock, self._on_push)

    def _made_again(self, address: str, link: _Link, reason: str) -> BrokerConnection:
        """Raises Unreachable; with `trying` left where the attempt goes on."""
        trying = link.trying = link.trying or self._try(address)
        try:
            made = trying.result(AGAIN_WAIT_S)
        except TimeoutError:
            raise Unreachable(f"{reason}; being tried again") from None
        except BaseException:
            link.trying = None
            raise
        link.trying = None
        return made

    def _try(self, address: str) -> "Future[BrokerConnection]":
        future: Future[BrokerConnection] = Future()

        def run() -> None:
            try:
                future.set_result(self._made(address))
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                future.set_exception(error)

        Thread(target=run, name=f"rocketmq connects to {address}", daemon=True).start()
        return future

    def _leave_alone(self, link: _Link, reason: str) -> None:
        failed, settings = link.failed, self._settings
        backoff_s = min(failed.backoff_s * 2 if failed else settings.backoff_min_s, settings.backoff_max_s)
        link.failed = _Failed(self._clock.monotonic_s() + backoff_s, backoff_s, reason)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            links = list(self._links.values())
        for link in links:
            with link.lock:
                if link.connection is not None:
                    link.connection.close()
                if link.trying is not None:
                    link.trying.add_done_callback(_close_made)


def _close_made(trying: "Future[BrokerConnection]") -> None:
    if trying.exception() is None:
        trying.result().close()
