"""The Kafka protocol as pure functions over bytes: frames, headers, messages. One codec for the proxy that relays the
protocol and for the client that speaks it (`kafkawire.client`).

    frames.py      a stream of bytes -> runs of opaque bytes, and the frames that the caller wants whole
    apis.py        which APIs and versions there are, and how their headers look
    message.py     headers, whole messages, `decode` and `encode`
    messages/      one table per message
    schema.py      what a table is, compiled; primitives.py below it
    errors.py      what can be wrong with bytes, and the protocol's error numbers

What is raised here is all of `kafkawire.protocol.errors`.
"""
