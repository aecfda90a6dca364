"""A proxy in a thread, before a scripted name server and a scripted broker."""

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from prometheus_client import CollectorRegistry

from cli.proxy_thread import ProxyThread
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import Append, LogRecord, Position
from mq.errors import OffsetOutOfRange, QueueError
from mq.rocketmq.naming import WireNames
from proxy.limits import Limits
from proxy.rocketmq.accounts import Account
from proxy.rocketmq.frontend.server import RocketmqServer
from proxy.rocketmq.hub import open_hub
from proxy.rocketmq.metrics import RocketmqProxyMetrics
from proxy.rocketmq.settings import RocketmqProxySettings
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import WireError
from rocketmq.wire.acl import AclCredentials
from rocketmq.wire.batch import decode_batch
from rocketmq.wire.bodies import BrokerAddresses, QueueRange, Route, encode_cluster, encode_route
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, answer_to, decode_frame, encode_frame
from rocketmq.wire.frames import FrameSplitter
from rocketmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from rocketmq.wire.properties import encode_properties
from rocketmq.wire.stored import StoredMessage
from tests.ports import free_range
from tests.unit.rocketmq.peer import PeerLink, ScriptedPeer

BROKER = "broker-a"
BUFFER = "ns%buffer%orders"
CLOCK = SystemClock()
WITHIN_S = 10.0
OWN = AclCredentials("delayline", "own-secret")
CLIENT = AclCredentials("orders-service", "client-secret")
OTHER = AclCredentials("mails-service", "other-secret")
"""Accounts: Delayline's, a client's with the right to send to `orders`, and one without."""


class Queue:
    """Of the adapter, what the proxy asks. `ready` holds `ensure_buffer` up until it is set."""

    def __init__(self) -> None:
        self.ensured: list[str] = []
        self.trouble: QueueError | None = None
        self.ready = Event()
        self.ready.set()
        self.records: dict[tuple[str, str, int], LogRecord] = {}
        self.unread = 0  # reads that find nothing yet
        self.appended: list[Append] = []

    def ensure_buffer(self, name: str, rules: Rules) -> None:
        self.ensured.append(name)
        assert self.ready.wait(WITHIN_S)
        if self.trouble is not None:
            raise self.trouble

    def read(self, topic: str, partition: str, offset: int, records_max: int) -> list[LogRecord]:
        found = self.records.get((topic, partition, offset))
        if self.unread:
            self.unread -= 1
            raise OffsetOutOfRange("not yet")
        return [] if found is None else [found]

    def append(self, records: list[Append]) -> "Future[list[Position]]":
        self.appended += records
        return done([Position(one.topic, one.partition, 100 + n, 0) for n, one in enumerate(records)])


def done(result: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class Wire:
    """A client, frame by frame."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.channel = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        if tls is not None:
            self.channel = tls.wrap_socket(self.channel, server_hostname="127.0.0.1")
        self._frames = FrameSplitter()
        self._read: list[Command] = []

    def send(self, *commands: Command) -> None:
        self.channel.sendall(b"".join(b"".join(encode_frame(one)) for one in commands))

    def receive(self) -> Command:
        """The next frame. Raises EOFError where the proxy has hung up."""
        while not self._read:
            data = self.channel.recv(1 << 16)
            if not data:
                raise EOFError
            self._read += [decode_frame(payload) for payload in self._frames.feed(data)]
        return self._read.pop(0)

    def ask(self, command: Command) -> Command:
        self.send(command)
        return self.receive()

    def is_closed(self) -> bool:
        with suppress(ConnectionError, WireError):
            return self.channel.recv(1) == b""
        return True

    def close(self) -> None:
        self.channel.close()


def message(
    topic: str = "orders", body: bytes = b"x", also: Mapping[str, str] | None = None, **properties: str
) -> Command:
    """A send of Java's client. `also` are properties whose names are no identifiers."""
    return send_of(topic, body, 1, encode_properties({"UNIQ_KEY": "K1", **properties, **(also or {})}))


def send_of(topic: str, body: bytes, queue_id: int = 1, properties: str = "", **more: Any) -> Command:
    code = Request.SEND_BATCH_MESSAGE if more.get("batch") else Request.SEND_MESSAGE_V2
    fields = {"sys_flag": 0, "flag": 0, "born_timestamp": 5, "producer_group": "p", **more}
    header = SendMessageV2(topic=topic, queue_id=queue_id, properties=properties, broker=BROKER, **fields)
    return Command(code, header.to_fields(), body, opaque=7)


def half_of(topic: str, sent: str | None = "9 769") -> StoredMessage:
    """A half message for this topic, as a broker asks for its outcome."""
    properties = {"REAL_TOPIC": topic, "REAL_QID": "1", "UNIQ_KEY": "K1", "PGROUP": "p", "delay": "1h"}
    text = encode_properties(properties | ({} if sent is None else {"delayline-sent": sent}))
    return StoredMessage(
        *(topic, 1, 3, 900, b"packed", text.encode(), 0, 0, 5, b"\x7f\0\0\1", 5),
        *(1_000, b"\x7f\0\0\1", 6, 0, 0, 0),
    )


class Broker:
    """Stores what comes; `queues` are how many of each topic it has been sent."""

    def __init__(self, stack: ExitStack, tls: ssl.SSLContext | None = None) -> None:
        self.peer = stack.enter_context(closing(ScriptedPeer(self._answer, tls)))
        self.offsets: dict[str, int] = {}
        self.codes: dict[str, int] = {}  # answers by topic, other than success
        self.refused_body = b""  # of a message that is illegal
        self.others: Callable[[PeerLink, Command], None] = lambda link, command: link.send(answer_to(command, 0))

    def keep_others(self) -> list[tuple[PeerLink, Command]]:
        """Where requests that are no sends are kept from now on, without an answer."""
        kept: list[tuple[PeerLink, Command]] = []
        self.others = lambda link, command: kept.append((link, command))
        return kept

    def _answer(self, link: PeerLink, command: Command) -> None:
        try:
            self._carry_out(link, command)
        except (KeyError, ValueError, WireError) as error:
            link.send(answer_to(command, Answer.SYSTEM_ERROR, remark=repr(error)))

    def _carry_out(self, link: PeerLink, command: Command) -> None:
        if command.is_answer:
            return
        if command.code not in (Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE, Request.SEND_MESSAGE):
            self.others(link, command)
            return
        topic = command.fields.get("b") or command.fields["topic"]
        count = len(decode_batch(command.body)) if command.fields.get("m") == "true" else 1
        if code := self.codes.get(topic):
            answer = answer_to(command, code, remark=f"topic[{topic}] not exist")
        elif self.refused_body and self.refused_body in bytes(command.body):
            answer = answer_to(command, Answer.MESSAGE_ILLEGAL)
        else:
            offset = self.offsets.get(topic, 0)
            self.offsets[topic] = offset + count
            queue = int(command.fields.get("e") or 0)
            ids = ",".join(f"{topic}-{queue}-{offset + number}" for number in range(count))
            stored = SendMessageAnswer(ids, queue, offset)
            answer = answer_to(command, 0, {**stored.to_fields(), "MSG_REGION": "r"})
        if not command.is_one_way:
            link.send(answer)

    def topics(self) -> list[str]:
        """Of the sends that came, in their order."""
        return [one.fields["b"] for one in self.peer.seen if "b" in one.fields]


class NameServer:
    """Knows the broker, and the topic."""

    def __init__(self, stack: ExitStack, broker: Broker, tls: ssl.SSLContext | None = None) -> None:
        self.addresses: dict[int, str] = {0: broker.peer.address}
        self.peer = stack.enter_context(closing(ScriptedPeer(self._answer, tls)))

    def _answer(self, link: PeerLink, command: Command) -> None:
        brokers = (BrokerAddresses("c", BROKER, dict(self.addresses)),)
        if command.code == Request.GET_BROKER_CLUSTER_INFO:
            link.send(answer_to(command, 0, body=encode_cluster(brokers)))
        elif command.code == Request.GET_ROUTEINFO_BY_TOPIC:
            route = Route((QueueRange(BROKER, 2, 2),), brokers)
            link.send(answer_to(command, 0, body=encode_route(route)))
        else:
            link.send(answer_to(command, Answer.REQUEST_CODE_NOT_SUPPORTED))


class Scene:
    """Not open yet. `tls` is that of the servers."""

    def __init__(self, stack: ExitStack, folder: Path, tls: ssl.SSLContext | None = None) -> None:
        self.stack = stack
        self.broker = Broker(stack, tls)
        self.names = NameServer(stack, self.broker, tls)
        self.queue = Queue()
        self.owners: Any = None
        self.full: str | None = None
        self.stop: Callable[[], None]
        self.thread: ProxyThread
        self.port = free_range(24)
        self.registry = CollectorRegistry()
        self.metrics = RocketmqProxyMetrics(self.registry)
        self.settings = self._settings(folder)

    def _settings(self, folder: Path) -> RocketmqProxySettings:
        return RocketmqProxySettings(
            host="127.0.0.1",
            port=self.port,
            advertised_host="127.0.0.1",
            brokers=(BROKER,),
            brokers_max=2,
            broker_ids_max=2,
            kept=folder / "kept.json",
            client=ClientSettings((self.names.peer.address,)),
            wire_names=WireNames(Names("ns")),
            is_delay_enabled=lambda topic: topic.startswith("orders"),
            rules_for=lambda _: DEFAULT_RULES,
            horizon_max_ms=40 * 86_400_000,
            record_bytes_max=1 << 20,
            limits=Limits(),
        )

    def guard(self) -> None:
        """Where brokers check accounts. To be called before `open`."""
        client = ClientSettings(self.settings.client.name_servers, OWN)
        rights = ((CLIENT, r"orders.*|.*\.retry\.billing"), (OTHER, "mails"))
        accounts = tuple(Account(one.access_key, one.secret_key, re.compile(topics)) for one, topics in rights)
        self.settings = replace(self.settings, client=client, accounts=accounts)

    def open(self) -> "Scene":
        self.begin()
        self.wait_until(lambda: self.thread.readiness()[0])
        return self

    def begin(self) -> None:
        """Open it, without waiting until it is ready."""
        self.stack.enter_context(self._opened())

    @contextmanager
    def _opened(self) -> Iterator[None]:
        queue: Any = self.queue
        thread = self.thread = ProxyThread(
            lambda: RocketmqServer(open_hub(self.settings, queue, self.owners, self.metrics, CLOCK, self._why_full)),
            "proxy",
        )
        thread.start()
        self.stop = thread.stop
        try:
            yield
        finally:
            thread.stop()
            assert thread.failure is None, thread.failure

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        until_s = CLOCK.monotonic_s() + WITHIN_S
        while not is_so():
            assert CLOCK.monotonic_s() < until_s, self.thread.readiness()
            time.sleep(0.002)

    def _why_full(self, topic: str, *, adds: int = 1, repeats: int = 0, pending_max: int | None = None) -> str | None:
        return self.full

    def client(self, port: int | None = None) -> Wire:
        """To the broker, unless a port is given."""
        return self.stack.enter_context(closing(Wire(port or self.port + 4)))

    def count(self, name: str, labels: dict[str, str] | None = None) -> float:
        return self.registry.get_sample_value(name, labels or {}) or 0.0
