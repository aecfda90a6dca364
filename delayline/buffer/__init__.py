"""What the log of a shard holds: buffer records, the cursor, and the outcomes of records."""
