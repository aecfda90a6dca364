"""What the proxy asks brokers in its own name."""
