"""Record batches of the v2 format: which records carry a delay, and one batch made into two.

    head.py          the 61 bytes before the records, the checksum, other base sequences, probes
    compression.py   gzip, snappy, lz4 and zstd, bounded
    scan.py          which records carry a directive, and the parts for the target and the buffer topic

What becomes of the records of one partition, as far as it is decided here:

    match kind_of(records):
        case Kind.NULL:            refuse with ErrorCode.INVALID_RECORD: a broker would drop the connection
        case Kind.EMPTY | Kind.LEGACY:   forward as they are: nothing in them, or a format without headers
        case Kind.BATCH:           batch = read_batch(records)
                                   scan = scan_batch(batch, Directives(names))
                                   scan.found: the records to ask `delayline.schedule.read_directives` about
                                   parts = scan.split({1, 4})
                                   parts.immediate.encode(base_sequence), parts.delayed.encode(...)

Nothing is decompressed unless it is scanned, and nothing is copied while no name of a directive occurs. A batch that
is not scanned goes on as it came, or with `batch.encode(other base sequence)`. A part may be encoded again and again
under other sequences (a retry). Every function raises BatchError only; its `code` is the answer to the partition.
"""
