"""What the Kafka benches share.

    broker.py     a quiet broker of one node, topics on it, and loads that become readable all at once
    rig.py        the broker and the worker, as most benches want them
    reader.py     a read_committed reader of a target topic
    worker.py     a process beside the bench: the real worker on Kafka
    endpoints.py  ways to the broker: straight, through our proxy, through Kroxylicious
    laps.py       laps of traffic through endpoints, in turns
    traffic.py    the process that makes such traffic: a producer or a consumer
    copy.py       such a process: the plain consume-produce loop that the worker is compared with

Roles are processes, so that each one's CPU time is its own and no two share an interpreter.
"""
