"""Owners, wherever they are: what the HTTP API asks. An event loop in a thread of its own, around `routing`."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

import uvloop

from delay_service.query.owners.directory import Directory, OwnerAdmin
from delay_service.query.owners.local import LocalOwners
from delay_service.query.owners.methods import METHODS
from delay_service.query.owners.remote import Remote
from delay_service.query.owners.routing import NoShard, Routing
from delay_service.query.owners.signing import Signer
from delay_service.query.owners.waits import DECIDE_S, FIND_S, HELD_S, LIST_S, STOP_WITHIN_S
from delayline.clock import Clock
from delayline.process import logs
from delayline.process.tls import TlsContext
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
    Found,
    Gone,
    Held,
    Listing,
    Query,
    RequestedNames,
    Resolution,
    ShardFigures,
    Skip,
    StallReport,
)
from delayline.records.message import MessageId, Shard

T = TypeVar("T")

THREADS_MAX = 2

log = logs.get(__name__)


class RoutedOwners:
    """Any thread may ask it. To be used as a context manager."""

    def __init__(
        self,
        directory: Directory,
        signer: Signer,
        admin: OwnerAdmin,
        clock: Clock,
        here: LocalOwners | None = None,
        on_failure: Callable[[], None] = lambda: None,
        tls: TlsContext | None = None,
    ) -> None:
        """`here` is the worker of this process, if it has one. `on_failure` is called where the thread ends by
        itself: nothing asked of it is answered then. With `tls`, other processes are asked over it."""
        self._directory = directory
        self._signer = signer
        self._tls = tls
        self._admin = admin
        self._clock = clock
        self._here = here
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._work, name="owners", daemon=True)
        self._on_failure = on_failure
        self.failure: BaseException | None = None

    def __enter__(self) -> "RoutedOwners":
        self._thread.start()
        self._started.wait()
        if self.failure is not None:
            raise self.failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_WITHIN_S)

    def _work(self) -> None:
        """One that ends by itself takes the process with it: better dead than deaf."""
        begun = False
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self.failure, begun = error, self._started.is_set()
            log.critical("the thread that asks other processes ended", error=repr(error), exc_info=True)
        finally:
            self._started.set()
        if begun:
            self._on_failure()

    async def _serve(self) -> None:
        self.loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="owners")
        async with Remote(self._signer, tls=self._tls) as remote:
            self._routing = Routing(self._directory, remote, self._here, self._admin, threads, self._clock)
            self._started.set()
            await self._stopping.wait()
        threads.shutdown(wait=False, cancel_futures=True)

    def _submit(self, answering: "Coroutine[Any, Any, T]") -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(answering, self.loop)

    # --- delayline.questions.inquiry.Owners

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._find(message_id))

    async def _find(self, message_id: MessageId) -> Found | Gone | None:
        try:
            found: Found | Gone | None = await self._routing.ask(METHODS["find"], (message_id,), FIND_S)
        except NoShard:
            return None
        return found

    def decided(self, shard: Shard, offset: int) -> "Future[Resolution]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask(METHODS["decided"], (shard, offset), DECIDE_S))

    def all_decided(self, shard: Shard, offsets: Sequence[int]) -> "Future[list[Resolution]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask(METHODS["all_decided"], (shard, offsets), DECIDE_S))

    def held(self, shard: Shard, requested: Sequence[RequestedNames]) -> "Future[list[Held]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask(METHODS["held"], (shard, requested), HELD_S))

    def page(self, shards: Sequence[Shard], query: Query) -> "Future[list[Listing]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask_all(METHODS["page"], (shards, query), LIST_S))

    def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> "Future[list[DueCounts]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask_all(METHODS["due_counts"], (shards, query), LIST_S))

    def stall(self, shard: Shard) -> "Future[StallReport]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask(METHODS["stall"], (shard,), FIND_S))

    def skip(self, shard: Shard, skip: Skip) -> "Future[StallReport]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._routing.ask(METHODS["skip"], (shard, skip), DECIDE_S))

    def figures(self) -> "Future[list[ShardFigures]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._figures())

    async def _figures(self) -> list[ShardFigures]:
        """A shard that has just changed its owner may be shown by both: the later one knows it better."""
        found = await self._routing.ask_all(METHODS["figures"], (), LIST_S)
        return list({one.shard: one for one in sorted(found, key=lambda one: one.owner_epoch)}.values())
