"""An executable model around the sequencer: two logs that keep Kafka's idempotence rules, a client that repeats as
real ones do, connections that die at every step. The sequencer in it is the real one.

    log.py       a partition log and what it remembers of the producer
    scope.py     what a run consists of: batches, the client's habits, how many faults of which kind
    link.py      a client connection and its proxy
    world.py     one state of all of it, the steps out of it, and the judge
    explore.py   every state that a scope can reach, and whether each can still end well; long random runs
    mutants.py   breakages of the gate, each of which must be caught
    run.py       the long search: `python -m tests.proxy_model.run`

The judge, at every append: the record is the next one of its log in the client's order, so nothing is there twice,
misplaced or before its turn. At every acknowledgement: all records of the batch are in the logs they belong to, and a
log never loses them again. From every state the run can still end well. And no client is driven into the errors that
real ones do not survive: librdkafka's fatal 45, Java's new epoch after a 45 for the batch that is next.

Where batches are refused for good, clients do as real ones: Java begins a new epoch and numbers anew what it has not
sent yet, librdkafka waits first, aiokafka goes on. The judge then allows what Kafka alone does: a batch may be given
up that comes behind a later one of its epoch. What was acknowledged must be there all the same, once, and in order.
"""
