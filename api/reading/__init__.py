"""What is in topics, and what the owners of shards answer."""
