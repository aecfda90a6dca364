"""Questions about messages: answered by the worker that owns the shard, in whatever process."""
