"""A worker that has a shard and is about to take another over, in a thread that is held."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Event
from tests.unit.delay_service.harness import Bench

MAILS = Shard("mails", "0")


class Held(Executor):
    """Begins nothing before a test releases it, and ends what it has begun only then, too."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.closed = False

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: call(*args, **named)))
        return future

    def work(self) -> None:
        """One piece of work."""
        future, call = self.waiting.pop(0)
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - handed to the one who asked
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.closed = True
        while self.waiting:
            self.work()


class Directed:
    """A source in front of which events may be put, and something that happens first."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.events: list[Event] = []
        self.first: Callable[[], None] = lambda: None

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        first, self.first = self.first, lambda: None
        first()
        events, self.events = self.events, []
        return events or self._source.poll(records_max, timeout_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class Scene(Bench):
    """A worker that has ORDERS, and is about to take MAILS over: the thread for that is held."""

    def __init__(self) -> None:
        self.held = Held()
        super().__init__(in_front=Directed)
        self.turn(3)
        self.acquirer.to = self.held
        self.queue.ensure_buffer(MAILS.topic, DEFAULT_RULES)
        self.turn(2)

    def hand(self, *events: Event) -> None:
        self.source.events = list(events)
        self.worker.turn()

    def stalled(self) -> str | None:
        return self.owned(MAILS).progress.stalled

    def is_running(self) -> bool:
        return self.worker.core(MAILS) is not None

    def epochs(self) -> list[int]:
        """Of MAILS, in the order of commits."""
        return [part.cursor.owner_epoch for batch in self.sink.batches for part in batch if part.shard == MAILS]
