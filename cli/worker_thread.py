"""A worker in a thread of its own: opened as soon as the queue lets it, then run until it is stopped."""

import os
import signal
import threading
from collections.abc import Callable, Sequence

from delay_service.worker.loop import Worker
from delay_service.worker.owned import ShardStatus
from delay_service.worker.stalls import UNAVAILABLE
from delayline.process import logs
from mq.errors import QueueError
from store.errors import StoreDamaged

RETRY_S = 1.0
"""Between two tries to open the worker where the queue does not answer."""

SHOWN_MAX = 10
"""Stalled shards that a health check names."""

STOP_WITHIN_S = 4.0
"""What the worker gets for its last commit. A longer one is cut off, by the end of the process: nothing is lost by
that, as by any crash."""

log = logs.get(__name__)


class WorkerThread:
    """`worker` is None before the queue could be reached; `failure` is what ended the worker if that was not us, and
    `cut_off` whether it works on although its time is over."""

    def __init__(self, open_worker: Callable[[], Worker]) -> None:
        self._open_worker = open_worker
        self._stopping = threading.Event()
        self._start_trouble = "the queue has not answered yet"
        self._has_been_ready = False
        self._thread = threading.Thread(target=self._work, name="worker", daemon=True)
        self.worker: Worker | None = None
        self.failure: BaseException | None = None
        self.cut_off = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to end cleanly, and wait for it."""
        self._stopping.set()
        if self.worker is not None:
            self.worker.stop()
        self._thread.join(STOP_WITHIN_S)
        self.cut_off = self._thread.is_alive()
        if self.cut_off:
            log.warning("the worker did not end in time, the next start will catch up", seconds=STOP_WITHIN_S)

    @property
    def statuses(self) -> Sequence[ShardStatus]:
        """The shards as the worker sees them; none before there is a worker."""
        return self.worker.statuses if self.worker is not None else ()

    def readiness(self) -> tuple[bool, str]:
        """Whether the process can serve, and a text about its shards: once it has caught up with them, it
        can unless the queue is away. A shard that stalls, or is taken over later, is no reason: the others go on, and
        no other process would do better with it."""
        worker = self.worker
        if worker is None:
            return False, f"starting: {self._start_trouble}"
        if not worker.joined and not self._has_been_ready:
            return False, "starting"
        statuses = worker.statuses
        stalled = [status for status in statuses if status.stalled is not None]
        away = [status for status in stalled if status.stalled == UNAVAILABLE]
        if away and len(away) == len(statuses):
            return False, f"the queue cannot be reached: {away[0].detail}"
        behind = [status for status in statuses if not status.ready and status.stalled is None]
        if behind and not self._has_been_ready:
            return False, f"{len(behind)} shards are catching up, {'.'.join(behind[0].id)}"
        self._has_been_ready = True
        return True, _described(stalled)

    def _work(self) -> None:
        """A worker that ends by itself takes the process with it: better dead than deaf."""
        try:
            worker = self._open()
            if worker is not None:
                worker.run()
        except BaseException as error:
            if self.cut_off:
                return  # what it worked with was closed under it
            self.failure = error
            is_known = isinstance(error, StoreDamaged)  # the command ends with its sentence
            log.critical("the worker ended", error=str(error) if is_known else repr(error), exc_info=not is_known)
            if not self._stopping.is_set():
                end_process()

    def _open(self) -> Worker | None:
        """The worker, once the queue has let it in; None if we are stopped before."""
        while not self._stopping.is_set():
            try:
                self.worker = self._open_worker()
            except QueueError as error:
                self._wait(str(error))
                continue
            if self._stopping.is_set():
                self.worker.stop()  # whoever asked could not see it yet
            return self.worker
        return None

    def _wait(self, detail: str) -> None:
        if detail != self._start_trouble:
            log.warning("the worker waits for the queue", detail=detail)
        self._start_trouble = detail
        self._stopping.wait(RETRY_S)


def _described(stalled: Sequence[ShardStatus]) -> str:
    shown = ", ".join(f"{'.'.join(one.id)} ({one.stalled})" for one in stalled[:SHOWN_MAX])
    more = f" and {len(stalled) - SHOWN_MAX} more" if len(stalled) > SHOWN_MAX else ""
    return f"stalled: {shown}{more}" if stalled else "ready"


def end_process() -> None:
    """The server hears SIGTERM and ends, and the command raises the failure. Where it does not listen yet, SIGTERM
    would end the process as if a signal had asked for it (143), and a supervisor would not start it again."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)
