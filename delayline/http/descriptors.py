"""File descriptors: how many there are, and how many of them connections may take.

A process that has none left cannot open a file: RocksDB fails with EMFILE in the middle of a write, and the process
ends. So strangers get a part of them, and what the process needs itself is never theirs.
"""

import resource

DESCRIPTORS_MAX = 1 << 20
"""More is not asked for: some systems report a billion, and tables are made of that size."""

RESERVE_MAX = 1024
"""Files of the index (64 MiB each), segments of the embedded log, connections to brokers and to other processes."""


def raise_limit() -> int:
    """Raise this process's soft limit (RLIMIT_NOFILE) to the hard one. How many descriptors it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections_of(descriptors: int, wanted: int, part: float) -> int:
    """How many connections one port may have: what is wanted, within its part of what is no reserve; one at least.
    The reserve is half of a small limit."""
    free = descriptors - min(RESERVE_MAX, descriptors // 2)
    return max(1, min(wanted, int(free * part)))
