"""The embedded queue: a partitioned log on RocksDB, inside the process, durable by group commit.

    queue.py    EmbeddedQueue: what users open
    writer.py   the thread that turns waiting steps into one write and one fsync
    log.py      the RocksDB back end
    stored.py   what is in the log: keys, tables, how records are found
    tuning.py   RocksDB's options
    reclaim.py  gives back the disk that trimmed records took
    retention.py  deletes what was delivered long ago, or is too much
    entry.py    many records in one value: the layout
    encrypted.py  entries of a log that is encrypted
    encrypting.py  encrypts a log that is not
    folder.py   the folder, its lock and its format
    mark.py     how far the log was acknowledged: a file beside it
    examine.py  compares the log with the mark before it is opened
    verify.py   whether a queue may be opened, for a start and for a scrub
    accept_loss.py  what `--accept-loss` does, and what it would do
    salvage.py  goes on without what is missing, where that was accepted
    tables.py   puts back rows of the log's own tables
    topics_copy.py  the topics' rows a second time
    durably.py  writes small files
    scrub.py    reads everything, and reports what is damaged
    snapshot.py what a log holds, for who looks beside its owner

Page: docs/formats/embedded-log.md. Decision: docs/adr/0004-embedded-log.md.
"""

from mq.embedded.queue import EmbeddedQueue

__all__ = ["EmbeddedQueue"]
