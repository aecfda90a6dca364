"""Record batches of the v2 format.

    head.py          the 61 bytes before the records, the checksum, other base sequences, probes
    compression.py   gzip, snappy, lz4 and zstd, bounded
    walk.py          where the records stand
    records.py       the records themselves, for who reads a log
    build.py         batches for a transaction

Every function raises BatchError only; its `code` is the answer to the partition.
"""
