"""One node that the reader fetches from, and the records of its last answer."""

from collections import deque
from dataclasses import dataclass, field

from kafkawire.client.blocking import Connection
from kafkawire.client.fetched import Batches
from kafkawire.client.fetching import Backoff, Reading
from kafkawire.client.reading import At


@dataclass(slots=True)
class Link:
    """`asked` are the partitions of the Fetch under way; empty where there is none. `waiting` is what is left of the
    last answer: while there is some, the next answer stays in the socket."""

    node: int
    connection: Connection | None = None
    opening: bool = False
    readings: dict[At, Reading] = field(default_factory=dict)  # those that brought records last stand last
    asked: dict[At, Reading] = field(default_factory=dict)
    answer_until_s: float = 0.0
    send_at_s: float = 0.0
    waiting: deque[tuple[Reading, Batches]] = field(default_factory=deque)
    backoff: Backoff = field(default_factory=Backoff)

    def turn(self, bytes_max: int) -> tuple[Reading, Batches] | None:
        """Whose records come next. With `bytes_max` of 0 nothing more is unpacked: only what is unpacked already."""
        for _ in range(len(self.waiting)):
            reading, batches = self.waiting.popleft()
            if bytes_max > 0 or batches.left_bytes:
                return reading, batches
            # Behind the others: one partition with large batches must not hold up the rest of the node.
            self.waiting.append((reading, batches))
        return None
