"""What stands in topics, and what the owners of shards answer."""
