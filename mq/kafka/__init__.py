"""Apache Kafka: records by a client of our own, everything else through librdkafka.

    settings.py    what can be set, and how every kind of client is configured
    trouble.py     what librdkafka and the brokers answer, as errors of `mq.errors`
    bodies.py      bodies <-> librdkafka's messages
    cluster.py     what the cluster is asked and told: topics, configs, offsets, groups
    buffers.py     buffer topics and this installation's own topics, and how they must be
    offsets.py     what the worker group has committed
    cursors.py     where the cursors stand, and the takeover
    finishing.py   what producers and new owners need of whoever finishes hanging transactions
    membership.py  the group member: who owns which shard
    clock.py       the brokers' clocks, never run ahead of, and compared with ours
    log_throttle.py  fewer of the library's own log lines
    source.py      Source: the member's shards, read by a second consumer without a group
    producers.py   what is to be written and what can become of it; producers of librdkafka
    sink.py        Sink: a dispatch batch is one transaction
    readers.py     reading on behalf of the frontends
    client.py      Client
    queue.py       KafkaQueue: what users open
    direct/        the data path: what a worker reads and writes, over the protocol itself
    wire/, batch/  the protocol and its record batches as pure functions
    access.py      who we are to the brokers where we speak the protocol ourselves: tls.py, oauth/, kerberos.py
    properties.py  which of `mq.properties` is for whom

Only this package imports confluent_kafka, and nothing imports this package before somebody has chosen Kafka.
"""
