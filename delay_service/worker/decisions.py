"""The outcome of records that asked for something: operations, controls, conditional messages. For callers that
wait."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from itertools import count
from threading import Lock

from delayline.questions.inquiry import Resolution
from delayline.records.message import Shard

KEPT_MAX = 100_000
"""Those that are remembered, decided or waited for: a caller asks as soon as it has stored its record."""


class Decisions:
    """Of the commits of one worker. Any thread may ask."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Shard, int], Resolution | Future[Resolution]] = OrderedDict()
        self._lock = Lock()

    def record(self, shard: Shard, resolved: Iterable[tuple[int, Resolution]]) -> None:
        """A commit has made them true."""
        for offset, resolution in resolved:
            with self._lock:
                waiting = self._known.get((shard, offset))
                self._note(shard, offset, resolution)
            if isinstance(waiting, Future):
                waiting.set_result(resolution)

    def ask(self, shard: Shard, offset: int) -> "Future[Resolution]":
        """The outcome of the record at this offset, once a commit of this worker has decided it."""
        with self._lock:
            known = self._known.get((shard, offset))
            future: Future[Resolution] = known if isinstance(known, Future) else Future()
            if isinstance(known, Resolution):
                future.set_result(known)
            else:
                self._note(shard, offset, future)
        return future

    def ask_all(self, shard: Shard, offsets: Sequence[int]) -> "Future[list[Resolution]]":
        """The outcome of all of them, once that is known of each."""
        parts = [self.ask(shard, offset) for offset in offsets]
        answer: Future[list[Resolution]] = Future()
        left = count(len(parts) - 1, -1)  # one step of it is one instruction: any thread may take it

        def one_more(_: object) -> None:
            if next(left) == 0:
                answer.set_result([part.result() for part in parts])

        for part in parts:
            part.add_done_callback(one_more)
        if not parts:
            answer.set_result([])
        return answer

    def _note(self, shard: Shard, offset: int, what: "Resolution | Future[Resolution]") -> None:
        self._known[shard, offset] = what
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)  # a plain dict walks over all that have left before
