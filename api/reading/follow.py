"""Server-sent events (WHATWG HTML, 9.2): a topic's records as they arrive."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Executor

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.http.problems import LIMIT_EXCEEDED, Problems, Refusal
from api.reading.reader import Positions, Reader, Seen
from api.reading.views import record_out
from delayline.clock import Clock

BATCH_RECORDS_MAX = 500
WAIT_S = 1.0
"""The longest that a follower's thread waits in the queue: threads cannot be interrupted, a stop must be quick."""

EMPTY_PAUSE_S = 0.2
"""Before asking again where the queue held something new that is not readable yet."""

_HELLO = b"retry: 1000\n\n"
_HEARTBEAT = b": still here\n\n"


class Closing:
    """Becomes true once, when the server stops: streams end then. For the event loop's thread only."""

    def __init__(self) -> None:
        self.begun = False
        self._waiting: set[asyncio.Future[None]] = set()

    def begin(self) -> None:
        self.begun = True
        for waiter in tuple(self._waiting):
            waiter.cancel()

    def future(self) -> "asyncio.Future[None]":
        """Done when the stop begins, by being cancelled; a reader that has waited long enough cancels it as well."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        waiter.add_done_callback(self._waiting.discard)
        if self.begun:
            waiter.cancel()
        return waiter


class Streams:
    """How many streams are open, in all and for each address: each holds one of the threads."""

    def __init__(self, streams_max: int, per_address_max: int) -> None:
        self._streams_max = streams_max
        self._per_address_max = per_address_max
        self._of_address: Counter[str] = Counter()

    def enter(self, address: str) -> None:
        """Raises Refusal (503, or 429 where it is the client's address)."""
        if self._of_address.total() >= self._streams_max:
            raise Refusal(LIMIT_EXCEEDED, f"{self._streams_max} streams are open already", status=503)
        if self._of_address[address] >= self._per_address_max:
            detail = f"{self._per_address_max} streams from your address are open already"
            raise Refusal(LIMIT_EXCEEDED, detail, status=429)
        self._of_address[address] += 1

    def leave(self, address: str) -> None:
        self._of_address[address] -= 1
        if self._of_address[address] == 0:
            del self._of_address[address]


class Followers:
    """The open streams."""

    def __init__(
        self,
        reader: Reader,
        threads: Executor,
        streams: Streams,
        heartbeat_s: float,
        clock: Clock,
        closing: Closing,
    ) -> None:
        self._reader = reader
        self._threads = threads
        self.streams = streams
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._closing = closing

    async def follow(
        self, topic: str, page: Sequence[Seen], positions: Positions, check_right: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """The events of `page`, then of everything behind it, until the server stops. `positions` moves along.
        `check_right` is asked every second at least; raises what it raises, and QueueError."""
        yield _HELLO
        for event in _events(page, positions):
            yield event
        sent_at_s = self._clock.monotonic_s()
        asked_at_s = sent_at_s
        while (found := await self._ask(lambda: self._take(topic, positions))) is not None:
            check_right()
            now_s = self._clock.monotonic_s()
            if found:
                yield b"".join(_events(found, positions))
                sent_at_s = now_s
            elif now_s - sent_at_s >= self._heartbeat_s:
                yield _HEARTBEAT
                sent_at_s = now_s
            if not found and now_s - asked_at_s < EMPTY_PAUSE_S:
                await asyncio.sleep(EMPTY_PAUSE_S)
            asked_at_s = self._clock.monotonic_s()

    def _take(self, topic: str, positions: Positions) -> list[Seen]:
        """Blocking, at most `WAIT_S`: what stands behind the positions."""
        if not self._reader.wait(topic, positions, WAIT_S):
            return []
        return self._reader.next(topic, positions, BATCH_RECORDS_MAX)

    async def _ask(self, question: Callable[[], list[Seen]]) -> list[Seen] | None:
        """The answer from a thread; None when the server stops before."""
        answer = asyncio.get_running_loop().run_in_executor(self._threads, question)
        stop = self._closing.future()
        try:
            await asyncio.wait((answer, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if self._closing.begun:
            answer.cancel()
            return None
        return answer.result()


def _events(page: Sequence[Seen], positions: Positions) -> Iterator[bytes]:
    """An event per record; its id has every partition's position behind it, so that a client that comes back with
    `Last-Event-ID` gets the next one."""
    for seen in page:
        positions[seen.partition] = seen.record.offset + 1
        document = msgspec.json.encode(record_out(seen.partition, seen.record))
        yield b"id: " + str(positions).encode() + b"\ndata: " + document + b"\n\n"


class EventStream(StreamingResponse):
    """The response around `Followers.follow`; takes a place when it is made and gives it back when it ends."""

    def __init__(self, followers: Followers, problems: Problems, address: str, events: AsyncIterator[bytes]) -> None:
        """Raises Refusal (503 or 429)."""
        followers.streams.enter(address)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._streams = followers.streams
        self._address = address
        self._problems = problems

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body_iterator = self._to_the_end(scope, self.body_iterator)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave(self._address)

    async def _to_the_end(self, scope: Scope, events: object) -> AsyncIterator[bytes]:
        """What goes wrong becomes the last event, called `problem`: the status has been sent already."""
        assert isinstance(events, AsyncIterator), "made from an async iterator"
        try:
            async for event in events:
                yield event
        except Exception as error:  # noqa: BLE001 - the stream's edge, as `api.http.edge` is the request's
            yield b"event: problem\ndata: " + self._problems.document(scope, error) + b"\n\n"
