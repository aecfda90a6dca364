"""The remoting protocol of RocketMQ as pure functions over bytes, for a client and for a proxy.

    frames.py        a stream of bytes -> frames
    passing.py       the same for a proxy: frames that pass as they come, and those that are wanted whole
    command.py       a frame -> code, ext fields, body; both header encodings
    lenient.py       the JSON that name servers below 4.9.4 write
    codes.py         requests and answers, by number
    schema.py        how a class declares its ext fields
    headers/         one class per set of ext fields
    bodies.py        JSON bodies: routes, locks, heartbeats, configurations
    properties.py    a message's properties as text
    stored.py        messages as brokers keep them and pulls bring them
    batch.py         the body of a batched send
    compression.py   bodies, bounded in both directions
    ids.py           message ids, unique keys, recall handles
    acl.py           signatures

What is raised here is `rocketmq.errors.WireError` for bytes of others and `InvalidRequest` for values of ours.
Layouts are those of RocketMQ 5.5.0; each module names the class that it follows.
"""
