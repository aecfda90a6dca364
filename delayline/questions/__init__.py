"""What owners of shards are asked: about messages, and how many wait."""
