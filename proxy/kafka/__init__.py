"""The Kafka wire proxy.

Pure, bytes in and bytes out: `wire` (frames, headers, messages), `batch` (record batches), `errors`. What relays and
decides stands on top of them.
"""
