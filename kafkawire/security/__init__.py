"""Who we are to the brokers, and how connections to them are encrypted."""
