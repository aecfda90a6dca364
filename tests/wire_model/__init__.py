"""A model of what brokers make of a transactional producer's requests, and of a network that loses, delays and
refuses them; in it runs the state machine of `kafkawire.client.transaction`, and its result of each transaction is
held against what a reader of committed records sees.

    cluster.py   transaction coordinator, partitions and the group's offsets
    play.py      random runs, judged
    mutants.py   breakages of the machine that the judge must notice
    run.py       a long search

Source: `TransactionCoordinator`, `TransactionMetadata` and `ProducerStateManager` of Apache Kafka 4.3 and 3.9,
KIP-98, KIP-360 and KIP-890.
"""
