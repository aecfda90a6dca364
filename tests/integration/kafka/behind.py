"""A worker behind a scripted broker, and a reader past it who sees what has become of the worker's records."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any
from uuid import uuid4

from delayline.buffer.cursor import Cursor
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.cluster import ApiVersionsResponse
from mq.contract import Append, Assigned, Fetched, Lost, OutOfRange, Revoked, ShardBatch
from mq.errors import CommitAborted, CommitError, CommitUnknown, DeliveryRefused, Fenced, QueueUnavailable
from tests.brokers.scripted import FORWARD, Act, Altered, Asked, Scripted
from tests.integration.kafka.conftest import PATIENCE_S, Place, Worker, body, soon

POLL_S = 0.02
PAUSE_S = 0.02
RECORDS = 3
TRIES = 3
"""Cycles in which a request may not be made that is made in most."""


class Behind:
    """Copies the records of one shard to its target, and goes on after whatever happens as a worker does: taken again
    after an abort, taken over anew where a commit's fate is unknown or the shard is lost. `met` counts that."""

    def __init__(self, place: Place, stack: ExitStack, *, explicit: bool = False, **settings: Any) -> None:
        """`explicit`: the brokers report no transaction.version to the data path, so that partitions and offsets are
        added to transactions one by one."""
        place.make_topic(1)
        self.place = place
        self.outside = place.queue()
        self.outside.ensure_buffer(place.topic, DEFAULT_RULES)
        self.scripted = stack.enter_context(closing(Scripted(place.kafka.bootstrap_servers)))
        if explicit:
            self.scripted.always = self._without_features
        given = {"transaction_timeout_s": 10.0, "request_timeout_s": 5.0, "tend_interval_s": 3600.0, **settings}
        servers, member = self.scripted.bootstrap_servers, "127.0.0.1:1"  # so that its name is not the data path's
        self.writer = f"{place.namespace}-worker-{uuid4()}"
        self.queue = place.queue(bootstrap_servers=servers, address=member, **given)
        self.worker: Worker = place.worker(self.queue, self.writer)
        self.met: Counter[str] = Counter()
        self.cursor: Cursor | None = None
        self.sent: list[bytes] = []
        self.owned = False
        self.end = 0  # the offset behind the last record sent
        self.waiting: list[tuple[int, int, bytes]] = []
        soon(lambda: (self.poll(), self.owned)[1])
        self.settle()
        self.met.clear()  # a claim that a busy broker has answered too late is no part of what a script does

    def _without_features(self, asked: Asked) -> Act:
        if asked.api != ApiKey.API_VERSIONS or not self.is_ours(asked):
            return FORWARD
        return Altered(partial(_without_features, asked.version))

    def is_ours(self, asked: Asked) -> bool:
        """Whether the data path of the worker asks, and not one of librdkafka's clients beside it."""
        return asked.client_id == self.writer

    # --- what goes in

    def send(self, count: int = RECORDS) -> None:
        """Records into the buffer, past the scripted broker."""
        bodies = [body(b"%d" % (len(self.sent) + number)) for number in range(count)]
        appends = [Append(self.place.buffer, "0", one) for one in bodies]
        self.end = self.outside.append(appends).result(PATIENCE_S)[-1].offset + 1
        self.sent += bodies

    def forget(self) -> None:
        """What the worker's data path has learned, its producer and its connections: as after a start."""
        self.worker.sink.transactions.close()
        for nodes in self.queue.nodes:
            nodes.leaders.clear()
            nodes.coordinators.clear()
            nodes.close()

    def hang_up(self) -> int:
        """As a broker does with connections that have been idle. How many there were."""
        return self.scripted.hang_up(lambda client_id: client_id == self.writer)

    # --- a worker's turns

    def settle(self) -> None:
        """Until everything that was sent is delivered, as the worker knows it."""
        soon(self.turn)

    def turn(self) -> bool:
        """Whether nothing is left to do."""
        self.poll()  # whatever else is the matter: it is how a member hears that it has lost its shards
        if self.owned and self.cursor is None:
            self._take_over()
        elif self.owned:
            self.commit()
        return self.cursor is not None and self.cursor.next_offset >= self.end

    def poll(self) -> None:
        for event in self.worker.poll(POLL_S):
            match event:
                case Fetched(_, records):
                    self.waiting += records
                case Assigned():
                    self.owned = True
                case Revoked(shards) | Lost(shards):
                    self.owned, self.cursor = False, None
                    self.waiting.clear()
                    if isinstance(event, Revoked):
                        self.worker.source.release(shards)
                    self.met[type(event).__name__] += 1
                case OutOfRange(_, detail):
                    raise AssertionError(detail)

    def _take_over(self) -> None:
        try:
            self.cursor = self.worker.claim(self.place.shard)
        except (QueueUnavailable, CommitError) as error:
            self.met[f"{type(error).__name__} at a claim"] += 1
            Event().wait(PAUSE_S)
            return
        self.waiting.clear()
        self.worker.source.seek(self.place.shard, self.cursor.next_offset)

    def commit(self) -> None:
        if not self.waiting or self.cursor is None:
            return
        behind = self.waiting[-1][0] + 1
        cursor = replace(self.cursor, next_offset=behind, low_offset=behind)
        bodies = [one for _, _, one in self.waiting]
        batch = ShardBatch(self.place.shard, cursor, deliveries=[(one, None) for one in bodies], audit=bodies)
        try:
            self.worker.sink.commit([batch])
        except (CommitAborted, DeliveryRefused) as error:
            self.met[type(error).__name__] += 1
            Event().wait(PAUSE_S)
        except (CommitUnknown, Fenced) as error:
            self.met[type(error).__name__] += 1
            self.cursor = None
        else:
            self.cursor = cursor
            self.waiting.clear()

    # --- what comes out

    def check(self) -> None:
        """Every message is in the target once and in order, the audit has them as well, and the cursor agrees."""
        names = self.queue.settings.names
        target = soon(lambda: self._seen(self.place.topic, 1))
        audit = soon(lambda: self._seen(names.audit, len(self.outside.topic(names.audit).partitions)))
        assert target == self.sent
        assert audit == self.sent
        assert self.cursor is not None
        assert self.cursor.next_offset == self.end
        soon(lambda: self._committed() == self.end)

    def _committed(self) -> int | None:
        """By the group's coordinator, who may hear a moment later than us that it is."""
        found = self.outside.read_cursor_unfenced(self.place.shard)
        return None if found is None else found.next_offset

    def _seen(self, topic: str, partitions: int) -> list[bytes] | None:
        """None while it is less than was sent: a marker takes a moment."""
        found = [
            one
            for number in range(partitions)
            for _, _, one in self.outside.read(topic, str(number), 0, 100_000, 1 << 26)
        ]
        return found if len(found) >= len(self.sent) else None


def _without_features(version: int, data: bytes) -> bytes:
    answer = decode(ApiVersionsResponse, version, data)
    answer.finalized_features = []
    return b"".join(encode(answer, version))


class Once:
    """A script: does `act` to the `nth` request of an API that the worker's data path makes from now on, and lets
    everything else through."""

    def __init__(self, behind: Behind, api: int, nth: int, act: Act, *, times: int = 1) -> None:
        self._is_ours = behind.is_ours
        self._api, self._nth, self._act, self._left = api, nth, act, times
        self._seen = 0
        self.fired = 0

    def __call__(self, asked: Asked) -> Act:
        if asked.api != self._api or not self._is_ours(asked):
            return FORWARD
        self._seen += 1
        if self._seen < self._nth or not self._left:
            return FORWARD
        self._left -= 1
        self.fired += 1
        return self._act


def behind_a_fault(behind: Behind, script: Once, first: Callable[[], object] = lambda: None) -> None:
    """Cycles until the fault was in one, and one without, all judged. `first` is done under the script before
    anything is sent."""
    for _ in range(TRIES):
        with behind.scripted.following(script):
            first()
            behind.send()
            behind.settle()
        behind.check()
        if script.fired:
            break
    behind.send(1)
    behind.settle()
    behind.check()
    assert script.fired
