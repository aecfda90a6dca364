"""Python's interpreter, set up for a process that moves records.

A batch of records is some ten thousand tuples that live until its commit and never form a cycle: reference counting
frees them all. With the defaults (every 700 new objects) the garbage collector walks each of them several times for
nothing, a sixth of the CPU time of a worker. Rare passes still find what cycles there are: exceptions, clients.

A thread that waits for the interpreter gets it after the switch interval, 5 ms by default. A commit is three round
trips of a millisecond each, and whenever an answer has come its thread would wait so long for the one that is busy
with records. Switching sooner halves the lateness of a busy worker, and costs nothing that shows.
"""

import gc
import sys

OBJECTS_BETWEEN = 100_000
"""New objects between two passes over the youngest: tens of MB at most, a few batches."""

SWITCH_S = 0.0005


def set_up_interpreter() -> None:
    """Collect what start-up has left, never look at the rest of it again, and from now on rarely; switch often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN, 20, 20)
    sys.setswitchinterval(SWITCH_S)
