"""Apache Kafka: records by a client of our own (`kafkawire`), everything else through librdkafka.

    queue.py      KafkaQueue: what users open
    worker/       Source and Sink: the shards of a member, their records, the commit of a batch, cursors and takeovers
    ingress/      Client: what the frontends append and read, and who may claim a name
    planned/      planned parts of partitions, for the reconcile job
    data_path/    records through our own client: transactions, what is spoken, hanging transactions
    admin/        queries and changes of the cluster: topics, configuration, offsets, groups
    librdkafka/   its messages, producers and log lines; what it answers, as errors of `mq.errors`
    settings.py   what can be set, and how every kind of client is configured
    properties.py which of `mq.properties` is for whom

Only this package imports confluent_kafka, and nothing imports this package unless the configuration names Kafka.
"""
