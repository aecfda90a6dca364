"""No dumps of a process's memory, which holds messages and secrets."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_dumps(*, unless: bool = False) -> None:
    """Of this process, `unless` they are wanted: no file is written when a signal ends it, and on Linux no other
    process of the user may attach to it or read its memory (prctl(2), PR_SET_DUMPABLE). The limit alone does not keep
    the dump from a program in `core_pattern` (core(5)). Processes that it starts inherit the limit."""
    if unless:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
