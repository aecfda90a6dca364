"""The Kafka protocol as pure functions over bytes: frames, headers, messages, and what the proxy changes in them.

    frames.py      a stream of bytes -> runs of opaque bytes, and the frames that somebody wants whole
    apis.py        which APIs and versions are let through
    message.py     headers, whole messages, `decode` and `encode`
    messages/      one table per message
    rewrite.py     answers: versions, addresses, hidden topics
    refuse.py      requests that would touch a hidden topic
    schema.py      what a table is, compiled; primitives.py below it

A relay uses it like this, once per direction of a connection.

From the client: `FrameSplitter(wants, PEEK_BYTES)`. `wants` peeks api, version and correlation id, notes them in the
order of arrival, and asks for the frame whole where `request_is_read` says so; the rest streams through. What is not
`is_let_through` ends the connection, but for ApiVersions: its answer is `unsupported_version()`, in version 0. Of a
whole request, `read_request` gives header and body. `refuse` may have an answer to it, to be sent in the request's
turn. Otherwise `conceal` says what to forward instead of a Metadata or DescribeTopicPartitions request, and
`decode(ProduceRequest, version, body)` opens a Produce.

From the broker: `FrameSplitter(wants, 4)`. The oldest request noted tells API and version; where `response_is_read`,
`read_response`, `rewrite_response` and `response_frame` make the frame to send.

A Produce with acks=0 has no answer, and must not be noted. What is raised here is all of `proxy.kafka.errors`.
"""
