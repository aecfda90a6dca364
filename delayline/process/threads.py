"""Threads that must not end before their owner closes them.

The interpreter prints what ends a thread and forgets it, and the rest of the process goes on as if it were there.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread

from delayline.process import logs

AGAIN_S = 1.0
"""From what ended a turn to the next one."""

log = logs.get(__name__)
_failures: Counter[str] = Counter()  # by name of the thread; bounded by the names in the source
_lock = Lock()


def lasting(name: str, run: Callable[[], object], closing: Event) -> Thread:
    """A daemon thread, not started yet, for `run`, which returns when `closing` is set, or when there is nothing more
    to do. What it raises is logged and counted, and it is called again."""
    return Thread(target=run_lastingly, args=(name, run, closing), name=name, daemon=True)


def run_lastingly(name: str, run: Callable[[], object], closing: Event) -> None:
    while True:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - a panic in a library's binding is no Exception
            noted(name, error)
        else:
            return
        if closing.wait(AGAIN_S):
            return


def noted(name: str, error: BaseException) -> None:
    """Log and count what would have ended the thread. The traceback of a kind is logged once."""
    with _lock:
        first = name not in _failures
        _failures[name] += 1
    log.error("a thread failed and goes on", thread=name, error=repr(error), exc_info=error if first else None)


def failures() -> Mapping[str, int]:
    """How often each thread of this process has failed."""
    with _lock:
        return dict(_failures)
