"""A Kafka client in small: the protocol, record batches, security, and a client, of use without queues of ours."""
