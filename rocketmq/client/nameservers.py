"""Where topics and brokers are. What was learned is believed for `route_s`, and for as long as no name server
answers. Who sends or pulls never waits for a name server about a topic that is known: it uses what was learned last,
while a newer answer is under way."""

import logging
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple

from rocketmq.client.links import Links
from rocketmq.client.refusals import check
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import AnswerLost, InvalidRequest, PeerError, TopicMissing, Unreachable, WireError
from rocketmq.wire.bodies import BrokerAddresses, Route, decode_cluster, decode_route, decode_topic_list
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import GetRouteInfo

TOPICS_MAX = 10_000
"""Whose routes are kept; the oldest goes first."""

PATIENCE_S = 1.0
"""For one name server, where an older route is there to be used instead."""

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
        self._masters: dict[str, str] = {}  # the last address of each; bounded by the brokers there were
        self._asked: set[str] = set()  # topics about which a question is under way that no caller waits for
        self._listed: dict[Request, bytes | memoryview] = {}  # the last answers about the whole cluster
        self._first = 0
        self.are_silent = False
        self.stale_answers = 0

    def route(self, topic: str) -> Route:
        """Raises TopicMissing, NotAllowed, Refused; Unreachable and AnswerLost where no name server answers and
        the topic was never looked up."""
        known = self._known.get(topic)
        if known is None:
            return self._asked_route(topic, self._settings.request_timeout_s)
        if self._clock.monotonic_s() < known.until_s:
            return known.route
        if self.are_silent:
            self._ask_later(topic)
            return known.route
        try:
            return self._asked_route(topic, min(PATIENCE_S, self._settings.request_timeout_s))
        except (Unreachable, AnswerLost) as error:
            self._fell_silent("route", error, topic)
            return known.route

    def master(self, topic: str, broker: str) -> str:
        """The address of the broker that takes writes, as was learned last: no wait where the topic is known. A
        broker that the name server does not know, because that was started anew or was frozen, is where it was.
        Raises Unreachable where there is none, and as `route` does."""
        known = self._known.get(topic)
        if known is not None and self._clock.monotonic_s() >= known.until_s:
            self._ask_later(topic)
        route = self.route(topic) if known is None else known.route
        address = route.master_of(broker)
        if address is None and broker not in {one.broker for one in route.brokers}:
            address = self._masters.get(broker)
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
        """Every broker. Raises Refused, WireError; Unreachable and AnswerLost where no name server ever answered."""
        return decode_cluster(self._list(Request.GET_BROKER_CLUSTER_INFO))

    def topics(self) -> list[str]:
        """Names of all topics. Raises as `cluster` does."""
        return decode_topic_list(self._list(Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))

    def _list(self, request: Request) -> bytes | memoryview:
        """The last answer where there is none now."""
        known, timeout_s = self._listed.get(request), self._settings.request_timeout_s
        try:
            body = self._ask(Command(request), timeout_s if known is None else min(PATIENCE_S, timeout_s)).body
        except (Unreachable, AnswerLost) as error:
            if known is None:
                raise
            self._fell_silent("list", error)
            return known
        self.are_silent = False
        self._listed[request] = body
        return body

    def _fell_silent(self, what: str, error: Exception, topic: str | None = None) -> None:
        """Logged once, until one answers again."""
        if not self.are_silent:
            log.warning("an older %s is used: %s", what, error, extra={"topic": topic} if topic else None)
        self.are_silent = True
        self.stale_answers += 1

    def _asked_route(self, topic: str, timeout_s: float) -> Route:
        """Raises as `route` does, and forgets a topic that there is not any more. A name server knows a topic
        from its brokers: where none of them is registered it was started anew, or they are all down, and its answer
        is about them."""
        known = self._known.get(topic)
        try:
            route = decode_route(self._ask(_route_of(topic), timeout_s).body)
        except TopicMissing:
            if known is None or self._registered(known.route):
                self._drop(topic)
                raise
            route = known.route
        self.are_silent = False
        self._keep(topic, route)
        return route

    def _registered(self, route: Route) -> bool:
        """Whether a broker of it is."""
        return not {one.broker for one in route.brokers}.isdisjoint(one.broker for one in self.cluster())

    def _ask_later(self, topic: str) -> None:
        """The answer is used when it is there. One question about a topic at a time."""
        servers = self._settings.name_servers
        with self._lock:
            if topic in self._asked:
                return
            self._asked.add(topic)
        command = _route_of(topic)
        try:
            link = self._links.to(servers[self._first % len(servers)])
            link.start(command, self._settings.request_timeout_s).add_done_callback(
                lambda answer: self._answered(topic, command, answer)
            )
        except PeerError:
            self._unanswered()
            self._asked.discard(topic)

    def _answered(self, topic: str, command: Command, answer: "Future[Command]") -> None:
        """In a connection's thread."""
        self._asked.discard(topic)
        try:
            self._keep(topic, decode_route(check(answer.result(), command).body))
        except (AnswerLost, WireError):
            self._unanswered()
            return
        except PeerError:
            pass  # it answers, and the broker knows whether the topic is there
        self.are_silent = False

    def _unanswered(self) -> None:
        """An older route goes on, and the next question goes to the next server."""
        self._first += 1
        self.stale_answers += 1

    def _drop(self, topic: str) -> None:
        with self._lock:
            self._known.pop(topic, None)

    def _keep(self, topic: str, route: Route) -> None:
        masters = ((one.broker, route.master_of(one.broker)) for one in route.brokers)
        with self._lock:
            self._masters.update((broker, address) for broker, address in masters if address is not None)
            self._known.pop(topic, None)
            while len(self._known) >= TOPICS_MAX:
                self._known.pop(next(iter(self._known)))
            self._known[topic] = _Known(route, self._clock.monotonic_s() + self._settings.route_s)

    def _ask(self, command: Command, timeout_s: float | None = None) -> Command:
        """Of the server that answered last, then of the others in turn: nothing asked here changes anything."""
        servers = self._settings.name_servers
        trouble: Exception | None = None
        for number in range(self._first, self._first + len(servers)):
            try:
                answer = self._links.to(servers[number % len(servers)]).ask(command, timeout_s)
            except (Unreachable, AnswerLost, WireError) as error:
                trouble = error
                continue
            self._first = number % len(servers)
            return check(answer, command)
        assert trouble is not None, "there is a name server"
        raise trouble


def _route_of(topic: str) -> Command:
    fields = GetRouteInfo(topic, accept_standard_json_only=True).to_fields()
    return Command(Request.GET_ROUTEINFO_BY_TOPIC, fields)
