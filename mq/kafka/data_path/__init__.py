"""The data path: what a worker reads and writes, and appends of several records, through `kafkawire.client`.

    spoken.py     what is spoken; anything else that configuration or brokers ask for is refused
    exchange.py   the requests of the transaction's machine, as messages of the protocol
    outgoing.py   what a transaction writes, cut into batches
    producer.py   transactions: the I/O around `kafkawire.client.transaction`
    patience.py   how long its phases may take
    recovery.py   transactions whose end some partition has never heard of: found, and finished
    transaction_states.py  what coordinators and partitions answer about transactions
    finishing.py  what producers and new owners need of that

librdkafka keeps everything else: membership, administration, single appends, claims.
"""
