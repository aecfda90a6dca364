"""Where topics and brokers are. What was learned is believed for `route_s`, and for as long as no name server
answers."""

import logging
from threading import Lock
from typing import NamedTuple

from rocketmq.client.links import Links
from rocketmq.client.refusals import check
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import AnswerLost, InvalidRequest, Unreachable, WireError
from rocketmq.wire.bodies import BrokerAddresses, Route, decode_cluster, decode_route, decode_topic_list
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import GetRouteInfo

TOPICS_MAX = 10_000
"""Whose routes are kept; the oldest goes first."""

log = logging.getLogger(__name__)


class _Known(NamedTuple):
    route: Route
    until_s: float


class NameServers:
    """For any number of threads; they may ask at once, and each waits for its own question only."""

    def __init__(self, settings: ClientSettings, links: Links, clock: RocketmqClock) -> None:
        if not settings.name_servers:
            raise InvalidRequest("no name server is named")
        self._settings = settings
        self._links = links
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, _Known] = {}
        self._first = 0
        self.stale_answers = 0

    def route(self, topic: str) -> Route:
        """Raises TopicMissing, NotAllowed, Refused; Unreachable and AnswerLost where no name server answers and
        the topic was never looked up."""
        known = self._known.get(topic)
        if known is not None and self._clock.monotonic_s() < known.until_s:
            return known.route
        try:
            route = self._ask_route(topic)
        except (Unreachable, AnswerLost) as error:
            if known is None:
                raise
            self.stale_answers += 1
            log.warning("an older route is used: %s", error, extra={"topic": topic})
            return known.route
        self._keep(topic, route)
        return route

    def master(self, topic: str, broker: str) -> str:
        """The address of the broker that takes writes. Raises Unreachable where there is none, and as `route`
        does."""
        address = self.route(topic).master_of(broker)
        if address is None:
            self.forget(topic)
            raise Unreachable(f"broker {broker} has no master that serves {topic}")
        return address

    def forget(self, topic: str) -> None:
        """Ask anew before the next use. What is known is kept for when no name server answers."""
        with self._lock:
            if (known := self._known.get(topic)) is not None:
                self._known[topic] = known._replace(until_s=float("-inf"))

    def cluster(self) -> tuple[BrokerAddresses, ...]:
        """Every broker. Raises Unreachable, AnswerLost, Refused, WireError."""
        return decode_cluster(self._ask(Command(Request.GET_BROKER_CLUSTER_INFO)).body)

    def topics(self) -> list[str]:
        """Names of all topics. Raises as `cluster` does."""
        return decode_topic_list(self._ask(Command(Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body)

    def _ask_route(self, topic: str) -> Route:
        fields = GetRouteInfo(topic, accept_standard_json_only=True).to_fields()
        return decode_route(self._ask(Command(Request.GET_ROUTEINFO_BY_TOPIC, fields)).body)

    def _keep(self, topic: str, route: Route) -> None:
        with self._lock:
            self._known.pop(topic, None)
            while len(self._known) >= TOPICS_MAX:
                self._known.pop(next(iter(self._known)))
            self._known[topic] = _Known(route, self._clock.monotonic_s() + self._settings.route_s)

    def _ask(self, command: Command) -> Command:
        """Of the server that answered last, then of the others in turn: nothing asked here changes anything."""
        servers = self._settings.name_servers
        trouble: Exception | None = None
        for number in range(self._first, self._first + len(servers)):
            try:
                answer = self._links.to(servers[number % len(servers)]).ask(command)
            except (Unreachable, AnswerLost, WireError) as error:
                trouble = error
                continue
            self._first = number % len(servers)
            return check(answer, command)
        assert trouble is not None, "there is a name server"
        raise trouble
