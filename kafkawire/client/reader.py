"""WireReader: buffers read over the protocol itself, in the worker's own thread.

One connection to every node that leads a partition which is read, and one Fetch under way on each. An answer is
looked through by the heads of its batches only, the next request goes out, and then its records are handed out, as
many as are wanted and READ_BYTES of them; while some of them wait, the next answer stays in the socket. So what is
held of a node is bounded by two answers, and it is at work while we are. And what is unpacked of all of them, since a
few kilobytes of an answer may stand for gigabytes, by LEFT_BYTES, READ_BYTES and one batch.

What blocks, connecting and asking who leads, is done by helpers: a node that is dead never holds the worker up.
"""

import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from delayline.clock import Clock
from delayline.process import logs
from delayline.records.set_aside import RAW_BYTES_MAX
from kafkawire.client.blocking import Connection
from kafkawire.client.fetched import NO_EPOCH
from kafkawire.client.fetching import (
    BACKOFF_FORBIDDEN_S,
    FETCH_VERSION,
    MAX_WAIT_MS,
    Meaning,
    Reading,
    divergence,
    request_for,
    take,
)
from kafkawire.client.helpers import Helpers
from kafkawire.client.link import Link
from kafkawire.client.reading import At, Gone, Part, Read, Spoilt
from kafkawire.protocol.errors import BatchError, NotAuthenticated, PeerError, UnsupportedVersion, WireError
from kafkawire.protocol.message import decode
from kafkawire.protocol.messages.fetch import FetchedPartition, FetchResponse

HELPERS_MAX = 4
"""Nodes that are dead may hold up as many before a living one is looked for."""
SMALL_BYTES = 32 << 10
GATHER_S = 0.004
"""After an answer of fewer bytes the next one is asked for a little later: a request for every few records costs more
than the records."""

READ_BYTES = 8 << 20
"""Unpacked for one `read`, of all partitions, to the end of a batch: two thousand records of 4 KB."""

LEFT_BYTES = 64 << 20
"""Where so much that was unpacked waits because a read has enough records, it comes first. Below that partitions take
turns whatever the length of their batches."""

log = logs.get(__name__)


class Leaders(Protocol):
    """What is needed of `nodes.Nodes`."""

    def known_leader(self, topic: str, partition: int) -> int | None: ...
    def leader(self, topic: str, partition: int) -> int: ...
    def forget(self, topic: str) -> None: ...
    def connect(self, node_id: int) -> Connection: ...


class WireReader:
    """Over `nodes`, which stays the caller's to close. `timeout_s` is for every answer; of a batch that is set aside,
    up to `raw_bytes_max` are kept. One thread, except `wake`. What was fetched under one assignment never comes out
    under another one."""

    def __init__(self, nodes: Leaders, timeout_s: float, clock: Clock, raw_bytes_max: int = RAW_BYTES_MAX) -> None:
        self._raw_bytes_max = raw_bytes_max
        self.nodes = nodes
        self._timeout_s = timeout_s
        self._clock = clock
        self.readings: dict[At, Reading] = {}
        self._homeless: dict[At, Reading] = {}  # those of them without a node
        self.links: dict[int, Link] = {}  # bounded by the cluster's nodes
        self._looking: set[str] = set()
        self._ended: list[Read] = []
        self.reported: set[str] = set()
        self._woken = False
        self._closed = False
        self._kicked, self._kick = socket.socketpair()
        self._kicked.setblocking(False)
        self._kick.setblocking(False)
        self._helpers = Helpers(HELPERS_MAX, self._rouse)

    def assign(self, at: At, offset: int) -> None:
        """Read the partition, which is not assigned yet, from `offset` on."""
        self.readings[at] = self._homeless[at] = Reading(at, offset)

    def unassign(self, at: At) -> None:
        """Read no more of the partition."""
        reading = self.readings.pop(at, None)
        self._homeless.pop(at, None)
        for link in self.links.values():
            link.readings.pop(at, None)
            link.waiting = deque(one for one in link.waiting if one[0] is not reading)

    def log_end(self, at: At) -> int:
        """The high watermark, as the last fetch has shown it; 0 where that is unknown."""
        reading = self.readings.get(at)
        return 0 if reading is None else reading.log_end

    def wake(self) -> None:
        """Let a `read` that waits return, or the next one. Any thread may call it; it is never lost."""
        self._woken = True
        self._rouse()

    def read(self, records_max: int, wait_s: float) -> Sequence[Read]:
        """What has been fetched, at most `records_max` records; waits up to `wait_s` seconds where there is nothing.
        Returns early, perhaps empty, on `wake`."""
        until_s = self._clock.monotonic_s() + wait_s
        while True:
            now_s = self._clock.monotonic_s()
            self.advance_links(now_s)
            found = self._hand_out(records_max)
            if found or self._woken or now_s >= until_s:
                self._woken = False
                return found
            self._wait(min(until_s, self._next_s()) - now_s)

    def close(self) -> None:
        self._closed = True
        self._helpers.close()
        for link in self.links.values():
            if link.connection is not None:
                link.connection.close()
        self._kick.close()
        self._kicked.close()

    # --- waiting

    def _rouse(self) -> None:
        with suppress(OSError):  # full: it will be seen; closed: nobody waits
            self._kick.send(b"\x00")

    def _wait(self, wait_s: float) -> None:
        waiting = select.poll()
        waiting.register(self._kicked, select.POLLIN)
        for link in self.links.values():
            if link.connection is not None and not link.waiting:
                waiting.register(link.connection, select.POLLIN)
        waiting.poll(max(0.0, wait_s) * 1000)  # rounded up
        with suppress(BlockingIOError):
            self._kicked.recv(4096)

    def _next_s(self) -> float:
        """When something is to be done without an event."""
        homeless = self._homeless.items()
        times = [reading.backoff.until_s for at, reading in homeless if at.topic not in self._looking]
        for link in self.links.values():
            if link.waiting:
                continue
            if link.asked:
                times.append(link.answer_until_s)
            elif link.readings and link.connection is not None:
                times.append(link.send_at_s)
            elif link.readings and not link.opening:
                times.append(link.backoff.until_s)
        return min(times, default=float("inf"))

    # --- one step of everything

    def advance_links(self, now_s: float) -> None:
        self._helpers.finish()
        self._place(now_s)
        for link in self.links.values():
            if link.waiting:
                continue  # nothing moves to another node before its records are handed out: they stay in order
            if link.connection is None:
                self._open(link, now_s)
            else:
                self._hear(link, link.connection, now_s)

    def _place(self, now_s: float) -> None:
        """Give every partition to the link of its leader; look for those without one."""
        for at, reading in list(self._homeless.items()):
            if now_s < reading.backoff.until_s or at.topic in self._looking:
                continue
            node = self.nodes.known_leader(*at)
            if node is None:
                self._look(at)
                continue
            reading.node = node
            del self._homeless[at]
            self.links.setdefault(node, Link(node)).readings[at] = reading

    def _look(self, at: At) -> None:
        self._looking.add(at.topic)

        def found(error: PeerError | None) -> None:
            self._looking.discard(at.topic)
            if error is not None:
                self._put_off(at.topic, error)
            else:
                self.reported.discard(f"leaders of {at.topic}")

        def look() -> Callable[[], None]:
            try:
                self.nodes.leader(*at)
            except PeerError as error:
                trouble = error
                return lambda: found(trouble)
            return lambda: found(None)

        self._helpers.do(look)

    def _put_off(self, topic: str, error: PeerError) -> None:
        now_s = self._clock.monotonic_s()
        for at, reading in self._homeless.items():
            if at.topic == topic and now_s >= reading.backoff.until_s:
                reading.backoff.failed(now_s)
        self._report(f"leaders of {topic}", error)

    # --- connections

    def _open(self, link: Link, now_s: float) -> None:
        if link.opening or not link.readings or now_s < link.backoff.until_s:
            return
        link.opening = True

        def connect() -> Callable[[], None]:
            try:
                connection = self.nodes.connect(link.node)
            except PeerError as error:
                trouble = error
                return lambda: self._not_opened(link, trouble)
            if self._closed:
                connection.close()
            return lambda: self._opened(link, connection)

        self._helpers.do(connect)

    def _opened(self, link: Link, connection: Connection) -> None:
        link.opening = False
        if self._closed:
            connection.close()
            return
        link.connection = connection
        self.reported.discard(f"node {link.node}")

    def _not_opened(self, link: Link, error: PeerError) -> None:
        """Its partitions may be led by another one meanwhile."""
        link.opening = False
        lasting = isinstance(error, NotAuthenticated | UnsupportedVersion)
        link.backoff.failed(self._clock.monotonic_s(), BACKOFF_FORBIDDEN_S if lasting else 0.0)
        self._leave(link)
        self._report(f"node {link.node}", error)

    def _leave(self, link: Link) -> None:
        """Ask anew who leads what was read from this node."""
        for reading in list(link.readings.values()):
            self._moved(reading)

    def _drop(self, link: Link, now_s: float) -> None:
        """The connection has ended, as idle ones do: another one is opened, at once the first time."""
        if link.connection is not None:
            link.connection.close()
        link.connection, link.asked = None, {}
        link.backoff.failed(now_s)

    def _moved(self, reading: Reading, least_s: float = 0.0) -> None:
        """Its leader has to be found again."""
        if reading.node is not None:
            del self.links[reading.node].readings[reading.at]
            reading.node = None
            self._homeless[reading.at] = reading
        self.nodes.forget(reading.at.topic)
        reading.backoff.failed(self._clock.monotonic_s(), least_s)

    # --- requests and answers

    def _hear(self, link: Link, connection: Connection, now_s: float) -> None:
        """Take the answer that has come, and ask for the next one."""
        try:
            body = connection.arrived()
            if body is not None:
                self._answered(link, body, now_s)
            elif link.asked and now_s >= link.answer_until_s:
                self._report(f"node {link.node}", "no answer")
                self._leave(link)
                self._drop(link, now_s)
            if link.connection is not None and not link.asked and link.readings and now_s >= link.send_at_s:
                self._ask(link, connection, now_s)
        except PeerError as error:
            log.debug("reading: a connection has ended", node=link.node, detail=str(error))
            self._drop(link, now_s)

    def _ask(self, link: Link, connection: Connection, now_s: float) -> None:
        if now_s >= connection.use_until_s:
            self._drop(link, now_s)
            return
        asked = {at: reading for at, reading in link.readings.items() if not reading.ended}
        if asked:
            connection.send(request_for(asked.values()), FETCH_VERSION)
            link.asked = asked
            link.answer_until_s = now_s + MAX_WAIT_MS / 1000 + self._timeout_s

    def _answered(self, link: Link, body: memoryview, now_s: float) -> None:
        asked, link.asked = link.asked, {}
        try:
            answer = decode(FetchResponse, FETCH_VERSION, body)
        except WireError as error:
            self._report(f"node {link.node}", error)
            raise
        if answer.error_code:
            self._report(f"node {link.node}", f"error {answer.error_code}")
            self._drop(link, now_s)
            return
        link.backoff.succeeded()
        for topic in answer.responses:
            for part in topic.partitions:
                at = At(topic.topic, part.partition_index)
                reading = asked.get(at)
                if reading is not None and self.readings.get(at) is reading and reading.node == link.node:
                    self._taken(link, reading, part)
        gather_s = GATHER_S if link.waiting and len(body) < SMALL_BYTES else 0.0
        link.send_at_s = now_s + max(gather_s, min(answer.throttle_time_ms / 1000, self._timeout_s))

    def _taken(self, link: Link, reading: Reading, part: FetchedPartition) -> None:
        meaning, batches = take(reading, part, self._raw_bytes_max)
        at = reading.at
        match meaning:
            case Meaning.RECORDS if batches is not None:
                link.waiting.append((reading, batches))
                link.readings[at] = link.readings.pop(at)
            case Meaning.GONE:
                behind = f" behind a batch of epoch {reading.epoch}" if reading.epoch != NO_EPOCH else ""
                self._ended.append(Gone(at, f"offset {reading.offset}{behind} is not in the log"))
                self.unassign(at)
            case Meaning.DIVERGED:
                self._ended.append(Gone(at, divergence(reading, part)))
                self.unassign(at)
            case Meaning.SPOILT:
                self._ended.append(Spoilt(at, f"at offset {reading.offset}: the broker finds its log damaged"))
                self.unassign(at)
            case Meaning.MOVED:
                self._moved(reading)
            case Meaning.FORBIDDEN | Meaning.TROUBLE:
                self._report(f"reading {at.topic}", f"partition {at.partition}: error {part.error_code}")
                self._moved(reading, BACKOFF_FORBIDDEN_S if meaning is Meaning.FORBIDDEN else 0.0)
        if part.error_code == 0:
            self.reported.discard(f"reading {at.topic}")

    # --- what was fetched

    def _hand_out(self, records_max: int) -> list[Read]:
        found, self._ended = self._ended, []
        left = sum(batches.left_bytes for link in self.links.values() for _, batches in link.waiting)
        bytes_max = READ_BYTES if left < LEFT_BYTES else 0
        for link in list(self.links.values()):
            while records_max > 0 and (turn := link.turn(bytes_max)) is not None:
                reading, batches = turn
                unpacked = batches.unpacked_bytes
                try:
                    records = batches.take(records_max, bytes_max)
                except BatchError as error:
                    found.append(Spoilt(reading.at, str(error)))
                    self.unassign(reading.at)
                    continue
                records_max -= len(records)
                bytes_max -= batches.unpacked_bytes - unpacked
                found.append(Part(reading.at, records, batches.next_offset))
                if not batches.done:
                    link.waiting.append((reading, batches))
        if len(self.links) > 1 and found:
            self._take_turns()
        return found

    def _take_turns(self) -> None:
        """The node that comes first now comes last the next time."""
        first = next(iter(self.links))
        self.links[first] = self.links.pop(first)

    def _report(self, what: str, why: object) -> None:
        """Once, until it goes well again."""
        if what not in self.reported:
            self.reported.add(what)
            log.warning("reading buffers: trouble", what=what, detail=str(why))
