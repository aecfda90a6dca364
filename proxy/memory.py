"""What the C library does with memory that is free again.

Produces of a megabyte come and go. glibc gives such pieces back to the system as soon as they are free (it maps each
anew, or trims its heap), and the system clears every page before it hands it out again: a quarter of the CPU of a
pass-through produce, and several times that on a virtual machine whose host takes free pages away. So the process is
set to keep them.

What a burst has left would be kept for good then: pieces that are free lie between others that are not. So once a
burst is over it is given back. That takes 0.1 s for 150 MB, for which the event loop may wait.
"""

import asyncio
import ctypes

from proxy.limits import Budget

KEPT_BYTES = 64 << 20
"""Free memory at the end of a heap that is kept. The traffic of a proxy's connections, held for a moment, is less."""

MAPPED_BYTES = 32 << 20
"""Only pieces from this size on are mapped by themselves: the most that glibc lets be set."""

LOOK_S = 10.0
"""A burst is over when no more than `KEPT_BYTES` were held at once for so long."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> bool:
    """For the whole process. False where the C library has no such setting: then nothing is changed."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, MAPPED_BYTES))


def give_back() -> None:
    """All that is free. Takes a while."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class FreedMemory:
    """Of a process whose requests are paid for out of the budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._is_left = False  # a burst's, and it was not given back
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """On the event loop."""
        keep_freed_memory()
        self._looking = asyncio.create_task(self._look())

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.is_due():
                await asyncio.to_thread(give_back)

    def is_due(self) -> bool:
        """Whether a burst has ended. To be called from time to time."""
        is_burst = self._budget.take_peak() > KEPT_BYTES
        is_due = self._is_left and not is_burst
        self._is_left = is_burst
        return is_due
