"""The Kafka wire proxy.

The messages are those of `kafkawire.protocol`, record batches those of `kafkawire.batch`. Pure: `rewrite`
(answers: versions, addresses, hidden topics), `refuse` (requests that would touch a hidden topic), `scan` (which
records carry a directive, and one batch made into two), `sequencer`. What relays and decides stands on top of them.

A relay uses it like this, once per direction of a connection.

From the client: `FrameSplitter(wants, PEEK_BYTES)`. `wants` peeks api, version and correlation id, notes them in the
order of arrival, and asks for the frame whole where `request_is_read` is true; the rest streams through. What is not
`is_let_through` ends the connection, but for ApiVersions: its answer is `unsupported_version()`, in version 0. Of a
whole request, `read_request` gives header and body. `refuse` may have an answer to it, to be sent in the request's
turn. Otherwise `conceal` returns what to forward instead of a Metadata or DescribeTopicPartitions request, and
`decode(ProduceRequest, version, body)` opens a Produce.

From the broker: `FrameSplitter(wants, 4)`. The oldest request noted gives API and version; where `response_is_read`,
`read_response`, `rewrite_response` and `response_frame` make the frame to send.

A Produce with acks=0 has no answer, and must not be noted.

The outcome of the records of one partition, as far as it is decided here:

    match kind_of(records):
        case Kind.NULL:            refuse with ErrorCode.INVALID_RECORD: a broker would drop the connection
        case Kind.EMPTY | Kind.LEGACY:   forward as they are: nothing in them, or a format without headers
        case Kind.BATCH:           batch = read_batch(records)
                                   scan = scan_batch(batch, Directives(names))
                                   scan.found: the records to ask `delayline.schedule.verdict.read_directives` about
                                   parts = scan.split({1, 4})
                                   parts.immediate.encode(base_sequence), parts.delayed.encode(...)

Nothing is decompressed unless it is scanned, and nothing is copied while no name of a directive occurs. A batch that
is not scanned goes on as it came, or with `batch.encode(other base sequence)`. A part may be encoded again and again
under other sequences (a retry). Every function raises BatchError only; its `code` is the answer to the partition.
"""
