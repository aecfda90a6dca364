"""The data path: what a worker reads and writes, and appends of several records, spoken over the protocol itself.

    spoken.py       what is spoken; anything else is refused
    connection.py   one connection to a broker: TLS, SASL, requests out and answers in, in order
    nodes.py        where brokers, leaders and coordinators are
    transaction.py  the life of a transactional producer, as a pure state machine
    steps.py        what that machine is told, and what it says
    reader.py       buffers read over Fetch, in the worker's own thread
    fetching.py     what is asked of a node, and what its answer means
    exchange.py     the same as messages of the protocol
    producer.py     transactions: the I/O around all that
    hanging.py      transactions whose end some partition has never heard of: found, and finished
    limits.py       how large a topic's batches may be
    fetched.py      what a Fetch brings of a partition, batch by batch, without what was aborted

A record stays bytes from the fetch to the produce; librdkafka would make an object of it at both ends. It keeps
everything else: membership, administration, single appends, claims.
"""
