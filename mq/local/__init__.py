"""Queues that live in this process: everything that the embedded queue and its in-memory twin have in common.

    topic.py    topics and partitions, and where each log begins and ends
    group.py    what one atomic write holds
    storage.py  the contract of the two back ends: RocksDB (`mq.embedded`) and lists (`mq.memory`)
    ledger.py   which step may happen, and what readers see of it
    steps.py    the things a caller can ask for: append, commit, make a topic, trim, takeover
    worker.py   Source and Sink
    queue.py    Client and Admin

Every change is a *step*. Steps are placed into a group (checked, given offsets), the group is written, and only then
do readers see it and callers hear of it. How many steps share a group is all that the two queues do differently.
"""
