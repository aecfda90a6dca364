"""A client that keeps records as bytes: reads partitions, and writes transactions.

    address.py      where brokers are
    session.py      one connection's half of the conversation, without I/O: requests out and answers in, in order
    blocking.py     its socket, deadlines and TLS, for a thread
    aio.py          the same in an event loop
    versions.py     what a broker speaks, as it reports itself
    metadata.py     where brokers, leaders and coordinators are
    transaction.py  the life of a transactional producer, as a pure state machine
    steps.py        what that machine takes in, and what it returns
    reader.py       partitions read over Fetch, in the thread of the caller
    reading.py      what reading brings
    fetching.py     what is asked of a node, and what its answer means
    fetched.py      what a Fetch brings of a partition, batch by batch, without what was aborted

A record stays bytes from the fetch to the produce; librdkafka would make an object of it at both ends. What a queue
of ours makes of this is in `mq.kafka.data_path`.
"""
