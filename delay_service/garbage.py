"""Python's cyclic garbage collector, set up for a process that moves records.

A batch of records is some ten thousand tuples that live until its commit and never form a cycle: reference counting
frees them all. With the defaults (every 700 new objects) the collector walks each of them several times for nothing,
a sixth of the CPU time of a worker. Rare passes still find what cycles there are: exceptions, closed clients.
"""

import gc

OBJECTS_BETWEEN = 100_000
"""New objects between two passes over the youngest: tens of MB at most, a few batches."""


def collect_rarely() -> None:
    """Collect what start-up has left, never look at the rest of it again, and from now on rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN, 20, 20)
