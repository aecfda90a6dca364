"""RocketMQ's remoting protocol, of use on its own: it imports nothing else of ours.

    wire/      the protocol as pure functions over bytes
    client/    a client: a session without I/O, connections and name servers around it
    errors.py  what can go wrong
    clock.py   the clocks that a client is handed

What is spoken and what is refused: docs/rocketmq-wire.md.
"""
