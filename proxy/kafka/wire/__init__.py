"""The Kafka protocol as pure functions over bytes: frames, headers, messages, and what the proxy changes in them.

    frames.py      a stream of bytes -> runs of opaque bytes and the frames that somebody wants whole
    apis.py        which APIs and versions are let through
    message.py     headers, whole messages, `decode` and `encode`
    messages/      one table per message
    rewrite.py     answers: versions, addresses, hidden topics
    refuse.py      requests that would touch a hidden topic
    schema.py      what a table is, compiled; primitives.py below it

A relay uses it like this, once per direction of a connection:

    from the client     FrameSplitter(wants, PEEK_BYTES); `wants` peeks (api, version, correlation id), notes it in the
                        order of arrival, and asks for the frame whole where `request_is_read`; the rest streams through
    a whole request     `read_request`; not `is_let_through`: answer `unsupported_version()` to ApiVersions in version 0,
                        and close the connection for any other. Then `refuse`: an answer to send in the request's turn
                        (a Produce with acks=0 has none: close). Then `conceal` for Metadata and DescribeTopicPartitions,
                        and `decode(ProduceRequest, ...)` for a Produce
    from the broker     FrameSplitter(wants, 4); the oldest request noted tells API and version: whole where
                        `response_is_read`, then `read_response`, `rewrite_response`, `response_frame`

A Produce with acks=0 has no answer and must not be noted. Every function raises only errors of `proxy.kafka.errors`.
"""
