"""The HTTP API, for producers and operators."""
