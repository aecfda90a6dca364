"""What the C library does with memory that is free again.

Produces of a megabyte come and go. glibc gives such pieces back to the system as soon as they are free (it maps each
anew, or trims its heap), and the system clears every page before it hands it out again: a quarter of the CPU of a
pass-through produce, and several times that on a virtual machine whose host takes free pages away. So the process is
set to keep them.
"""

import ctypes

KEPT_BYTES = 64 << 20
"""Free memory at the end of a heap that is kept. The traffic of a proxy's connections, held for a moment, is less."""

MAPPED_BYTES = 32 << 20
"""Only pieces from this size on are mapped by themselves: the most that glibc lets be set."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> bool:
    """For the whole process. False where the C library has no such setting: then nothing is changed."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, MAPPED_BYTES))
