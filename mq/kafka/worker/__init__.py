"""A worker's two ends: its shards, the records of their buffers, and the commit of a batch."""
