"""The embedded queue: a partitioned log on RocksDB, inside the process, durable by group commit.

    queue.py    EmbeddedQueue: what users open
    writer.py   the thread that turns waiting steps into one write and one fsync
    log.py      the RocksDB back end
    reclaim.py  gives back the disk that trimmed records took
    entry.py    many records in one value: the layout
    folder.py   the folder, its lock and its format

Page: docs/formats/embedded-log.md. Decision: docs/adr/0004-embedded-log.md.
"""

from mq.embedded.queue import EmbeddedQueue

__all__ = ["EmbeddedQueue"]
