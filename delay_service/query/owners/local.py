"""The worker of this process, and how it is waited for."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from delay_service.query.owners.errors import NotMine, NotYet
from delay_service.query.owners.methods import Method
from delayline.clock import Clock
from delayline.questions.inquiry import Owners
from delayline.records.message import Shard

LOOK_AGAIN_S = 0.5
"""How often a caller that waits for an answer looks whether the shard is still the worker's."""


class LocalOwners(Owners, Protocol):
    """Owners, answered by one worker for its own shards."""

    @property
    def writer(self) -> str:
        """The name under which the worker is a member of the group; empty before it is. Any thread."""

    def owns(self, shard: Shard) -> bool:
        """Whether the shard is assigned to the worker right now. Any thread."""


async def ask(
    local: LocalOwners,
    method: Method,
    arguments: tuple[Any, ...],
    wait_s: float,
    clock: Clock,
    ending: Callable[[], bool] = lambda: False,
) -> Any:
    """Raises NotMine where the shard is another worker's or becomes it, or the process is `ending`; NotYet; and
    whatever the worker raises."""
    shard, give_up_s = method.shard(arguments), clock.monotonic_s() + wait_s

    def check() -> None:
        if ending():
            raise NotMine("the process is ending")
        if shard is not None and not local.owns(shard):
            raise NotMine(f"shard {'.'.join(shard)} belongs to another worker")

    check()
    future: Future[Any] = getattr(local, method.name)(*arguments)
    while not await _is_done_within(future, min(LOOK_AGAIN_S, max(0.0, give_up_s - clock.monotonic_s()))):
        check()
        if clock.monotonic_s() >= give_up_s:
            raise NotYet("the worker has no answer yet")
    return future.result()


async def _is_done_within(future: "Future[Any]", timeout_s: float) -> bool:
    """Whether the future is done in time. A wait that ends early leaves it alone, which `asyncio.wrap_future` does
    not: others may wait for it, and the worker is going to complete it."""
    if future.done():
        return True
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: "Future[Any]") -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), timeout_s)
    return future.done()
