"""A worker's session with one broker: one connection, and an id under which the broker lists it while that lasts.

It is what fences. Everything that a worker writes for the shards of a broker goes over the session's connection,
which is never made again: a new one is another session. The broker removes the id from the group's list when the
connection has ended (`ClientHousekeepingService`). By then it has read everything sent over it; what an owner that
was frozen or cut off sends later meets a closed socket.

A list counts only if it names the asker as well: a broker that has just started knows no session yet. For up to
`channelExpiredTimeout` it may still contain sessions whose connections ended before their last heartbeat was carried
out. So with every change of the group the broker is asked whether it can still write to each of them.

What is left is what the broker has read and not carried out: `RocketmqSettings.landing_s`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import count
from threading import Lock
from typing import Any
from uuid import uuid4

from mq.errors import QueueUnavailable
from mq.rocketmq.sent import as_sent
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.trouble import is_not_stored
from rocketmq.client.broker import Sent
from rocketmq.client.client import Client
from rocketmq.errors import NotAllowed, RocketmqError
from rocketmq.wire.batch import BatchMember
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
        writer: str,
        on_change: Callable[[], None],
        group: str = "",
    ) -> None:
        """`group` is another than the workers'. `on_change` is called, in the connection's thread, when the group has
        other members. Raises RocketmqError."""

        def pushed(_: Command) -> None:
            self._is_doubted = True
            on_change()

        self.broker = broker
        self._names = settings.wire_names
        self._on_change = on_change
        self._is_doubted = True
        self._ended: set[str] = set()  # listed all the same; bounded by the list
        self.id = f"{writer}~{next(_numbers)}@{settings.address}"
        self._group = group or settings.group
        # By a topic that every broker has: where a shard's journal was deleted, others go on.
        self._queue = Queue(settings.wire_names.marks, broker, 0)
        client.admin.create_group(self._group, broker)
        self._lock = Lock()
        self._open: list[Future[Any]] = []  # not answered yet, and not waited for; bounded by the shards
        self._pinned = client.pinned(broker, pushed)
        self.requests = self._pinned.broker
        try:
            self.run = run_of(client, broker)
            self.beat()
        except BaseException:
            self.end()
            raise

    run: bytes
    """Of the broker, while the session lasts: one that was started anew, or has become the master, may lack what was
    acknowledged before."""

    @property
    def is_open(self) -> bool:
        return self._pinned.is_open

    def send_later(self, queue: Queue, members: Sequence[BatchMember], born_ms: int | None) -> "Future[Sent]":
        """All or none of a step's messages for a queue; to consumers as their producers have sent them. Raises
        RocketmqError."""
        if not self._names.is_delivered_to(queue.topic):
            return self.requests.send_batch_later(queue, members, born_ms=born_ms)
        members, sys_flag = as_sent(members)
        return self.requests.send_batch_later(queue, members, born_ms=born_ms, sys_flag=sys_flag)

    def gathering(self) -> AbstractContextManager[None]:
        """Requests within go out together, at the end."""
        return self._pinned.gathering()

    def beat(self) -> None:
        """The broker forgets who is silent for two minutes (`channelExpiredTimeout`). Raises RocketmqError."""
        self._pinned.group.heartbeat(self._queue, self.id, consumers=[Consumer(self._group, {})])

    def members(self) -> set[str]:
        """Ids of all sessions with this broker. Raises QueueUnavailable."""
        is_doubted, self._is_doubted = self._is_doubted, False
        try:
            found = set(self._pinned.group.consumers(self._group, self._queue))
            if is_doubted:
                self._doubt(found - self._ended - {self.id})
        except RocketmqError as error:
            self._is_doubted |= is_doubted
            raise QueueUnavailable(f"asking {self.broker} for the group's members: {error}") from error
        # rule session-listed: a broker that has just started would show every other session as ended.
        if self.id not in found:
            raise QueueUnavailable(f"{self.broker} does not know this session yet")
        with self._lock:
            self._ended &= found
            # rule session-ended: one that was killed at its heartbeat would have a share, delivered by none.
            return found - self._ended

    def _doubt(self, sessions: set[str]) -> None:
        """Those whose connection has ended are known in a moment. Raises RocketmqError."""
        for session in sessions:
            asked = self._pinned.group.is_connected_later(self._group, session, self._queue)
            asked.add_done_callback(partial(self._note, session))

    def _note(self, session: str, asked: "Future[bool]") -> None:
        """In the connection's thread."""
        if asked.exception() is not None or asked.result():
            return
        with self._lock:
            self._ended.add(session)
        self._on_change()

    def leave_open(self, request: "Future[Any] | None") -> None:
        """A request of a commit that is not waited for any longer; None, or one that has failed, is of unknown fate,
        and ends the session."""
        if request is None:
            self.end()
            return
        with self._lock:
            self._open.append(request)

    def check_answers(self) -> bool:
        """Whether all that was sent has its answer. One that will never come ends the session."""
        with self._lock:
            answered = [request for request in self._open if request.done()]
            self._open = [request for request in self._open if not request.done()]
            is_answered = not self._open
        errors = [request.exception() for request in answered]
        if any(isinstance(error, RocketmqError) and not is_not_stored(error) for error in errors):
            self.end()
        return is_answered

    def leave(self) -> None:
        """In order: others need not wait for the connection's end."""
        with suppress(RocketmqError):  # it ends all the same
            self._pinned.group.leave(self._queue, self.id, consumer_group=self._group)
        self.end()

    def end(self) -> None:
        """Nothing more can be sent; what is on its way may still land."""
        self._pinned.close()


def writer_of(session: str) -> tuple[str, str]:
    """The worker's name and address that a session's id holds."""
    name, _, address = session.partition("@")
    return name.rpartition("~")[0], address


def run_of(client: Client, broker: str) -> bytes:
    """Since when the broker runs, and since which election where a controller holds them: a master that was a replica
    in between has thrown away what the other lacked. Unlike any other where it may not be asked. Raises
    RocketmqError."""
    try:
        booted_ms = client.admin.runtime(broker).get("bootTimestamp")
        is_elected = client.admin.configuration(broker).get("enableControllerMode") == "true"
        epoch = f" {client.admin.master_epoch(broker)}" if is_elected else ""
    except NotAllowed:
        booted_ms = None
    return uuid4().bytes if booted_ms is None else f"{booted_ms}{epoch}".encode()
