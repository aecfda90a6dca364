"""`delayline proxy kafka` that kills itself at a marked point: `python -m tests.fault.proxy.marked POINT PASSES`.

The product knows nothing of it: its step functions are wrapped here, and the process ends by SIGKILL when the point
has been passed so many times. `soon` points fire up to three milliseconds after a step has begun: what was sent then
may have arrived or not.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

SOON_S = 0.003
KILLED_AT = "killed itself at: "

EVENTS = ("Batch", "TargetAnswered", "BufferAnswered", "AskAnswered")
POINTS = (
    *(f"before the sequencer hears {event}" for event in EVENTS),
    "before a Produce of ours",
    "soon after a Produce of ours",
    "before a write to the buffer",
    "soon after a write to the buffer began",
    "after a write to the buffer",
    "before a producer's state is asked for",
    "soon after a producer's state is asked for",
    "after a producer's state was answered",
    "before an answer to the client",
    "soon after an answer to the client",
)


class Mark:
    """Counts the passes of one point."""

    def __init__(self, point: str, passes: int) -> None:
        if point not in POINTS:
            raise ValueError(f"no point is called {point!r}")
        self._point = point
        self._left = passes
        self._rnd = Random(f"{point} {passes}")

    def passed(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            if point.startswith("soon"):
                asyncio.get_running_loop().call_later(self._rnd.random() * SOON_S, self._die)
            else:
                self._die()

    def _die(self) -> None:
        os.write(2, f"{KILLED_AT}{self._point}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)


def _around(mark: Mark, step: Callable[..., Any], before: str, soon: str) -> Callable[..., Any]:
    def around(*args: Any, **kwargs: Any) -> Any:
        mark.passed(before)
        try:
            return step(*args, **kwargs)
        finally:
            mark.passed(soon)

    return around


def _around_async(
    mark: Mark, step: Callable[..., Awaitable[Any]], before: str, soon: str, after: str
) -> Callable[..., Any]:
    async def around(*args: Any, **kwargs: Any) -> Any:
        mark.passed(before)
        mark.passed(soon)
        result = await step(*args, **kwargs)
        mark.passed(after)
        return result

    return around


def _hearing(mark: Mark, handle: Callable[..., Any]) -> Callable[..., Any]:
    def hears(sequencer: Any, event: Any) -> Any:
        mark.passed(f"before the sequencer hears {type(event).__name__}")
        return handle(sequencer, event)

    return hears


def wrap(mark: Mark) -> None:
    """Put the mark around the steps of this process."""
    from proxy.kafka.frontend.relay import KafkaRelay
    from proxy.kafka.produce.buffer_topics import BufferTopics
    from proxy.kafka.produce.sequencer import Sequencer

    sequencer, relay, twins = (vars(cls) for cls in (Sequencer, KafkaRelay, BufferTopics))
    Sequencer.handle = _hearing(mark, sequencer["handle"])
    KafkaRelay.ship = _around(mark, relay["ship"], "before a Produce of ours", "soon after a Produce of ours")
    KafkaRelay.answer = _around(
        mark, relay["answer"], "before an answer to the client", "soon after an answer to the client"
    )
    BufferTopics.append = _around_async(
        mark,
        twins["append"],
        "before a write to the buffer",
        "soon after a write to the buffer began",
        "after a write to the buffer",
    )
    BufferTopics.next_sequence = _around_async(
        mark,
        twins["next_sequence"],
        "before a producer's state is asked for",
        "soon after a producer's state is asked for",
        "after a producer's state was answered",
    )


def main(point: str, passes: str) -> None:
    from cli.main import main as delayline

    wrap(Mark(point, int(passes)))
    sys.argv = ["delayline", "proxy", "kafka"]
    delayline()


if __name__ == "__main__":
    main(*sys.argv[1:])
